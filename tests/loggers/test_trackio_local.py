"""trackio for real: what it keeps is read back from its own database."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trackio", reason='needs pip install "retrain[trackio]"')

PROGRAM = """
import sys
from pathlib import Path
from logged_runs import config, write_rows
from retrain.loggers.publishing import publishing

folder = Path(sys.argv[1])
resume = sys.argv[2] == "resume"
run = config(folder, {"trackio": {"project": "demo"}})
with publishing(run, print, resume=resume):
    write_rows(folder, *map(int, sys.argv[3:]), resume=resume)
"""


def log(tmp_path: Path, how: str, *iterations: int) -> str:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), how, *map(str, iterations)]
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1])])
    env = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "PYTHONPATH": path}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=env)
    return done.stdout


def rows(tmp_path: Path) -> list[tuple[str, int, dict[str, Any]]]:
    with sqlite3.connect(tmp_path / "trackio" / "demo.db") as database:
        found = database.execute("select run_name, step, metrics from metrics order by id")
        return [(name, step, json.loads(text)) for name, step, text in found]


def test_every_row_is_kept_under_its_iteration(tmp_path: Path) -> None:
    said = log(tmp_path, "new", 1, 2)
    assert said == "", "standard output is the command's own"
    log(tmp_path, "resume", 2, 3)
    found = rows(tmp_path)
    assert len({name for name, _, _ in found}) == 1
    kept = [(step, values.get("train/loss")) for _, step, values in found]
    assert [pair for pair in kept if pair[1] is not None] == [(1, -1), (2, -2), (2, -2), (3, -3)]
