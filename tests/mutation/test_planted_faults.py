"""Every planted fault still fits the sources, so that the table cannot rot unseen."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from check_planted_faults import FAULTS, PAGE
from planted_fault import ROOT, PlantedFault


def test_there_are_at_least_twenty_different_faults() -> None:
    assert len({(fault.file, fault.right, fault.wrong) for fault in FAULTS}) == len(FAULTS) >= 20


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.does)
def test_a_fault_can_be_planted_and_is_still_python(fault: PlantedFault, tmp_path: Path) -> None:
    path = tmp_path / fault.file
    path.parent.mkdir(parents=True)
    path.write_text((ROOT / fault.file).read_text())
    fault.plant(tmp_path)
    ast.parse(path.read_text())
    assert path.read_text() != (ROOT / fault.file).read_text()
    assert all((ROOT / test).exists() for test in fault.tests)


def test_the_table_names_every_fault_as_caught() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert {row.split(" | ")[0].removeprefix("| ") for row in rows} - {"---"} == {
        fault.does for fault in FAULTS
    }
    assert not [row for row in rows if "no test" in row]
