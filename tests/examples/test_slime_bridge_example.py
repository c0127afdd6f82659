"""`examples/bridges/slime_bridge.py`: what slime is given, and what it trains on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")

SCRIPT = Path(__file__).parents[2] / "examples" / "bridges" / "slime_bridge.py"
ADVANTAGE = re.compile(r"^group (\d)  reward (\d\.\d)  advantage ([+-]\d\.\d{4})$", re.MULTILINE)


@pytest.fixture(scope="module")
def printed() -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_groups_of_different_size_are_normalised_each_by_itself(printed: str) -> None:
    assert ADVANTAGE.findall(printed) == [
        ("0", "1.0", "+1.5000"),
        ("0", "0.0", "-0.5000"),
        ("0", "0.0", "-0.5000"),
        ("0", "0.0", "-0.5000"),
        ("1", "1.0", "+0.7071"),
        ("1", "0.0", "-0.7071"),
    ]
    assert "the advantages of step 2: yes" in printed


def test_sample_has_a_mask_over_its_whole_response(printed: str) -> None:
    lengths = dict(re.findall(r"^ *(\w+)  (\d+) values", printed, re.MULTILINE))
    trained = re.search(r"trained tokens  (\d+) of (\d+)", printed)
    assert trained is not None
    assert lengths["loss_mask"] == lengths["rollout_log_probs"] == trained[2]
    assert 0 < int(trained[1]) < int(trained[2]) < int(lengths["tokens"])
