"""`benchmarks/slime_bridge.py`: it runs, with the peer where slime is importable."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from slime_checkout import run, slime_root

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "slime_bridge.py"
SMALL = ["--turns", "2", "--tokens", "8", "--episodes", "2", "--repeats", "1"]


def test_without_slime_it_says_so(demo_model: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'retrain[dev]'")
    command = [sys.executable, str(SCRIPT), *SMALL, "--tokenizer", str(demo_model)]
    hidden = {"PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert re.search(r"retrain: \d+\.\d+ ms per turn; no ratio: slime is not", done.stdout)


@pytest.mark.slime
def test_with_slime_both_sides_are_timed(demo_model: Path) -> None:
    slime_root()
    done = run([str(SCRIPT), *SMALL, "--tokenizer", str(demo_model)], SCRIPT.parent)
    assert done.returncode == 0, done.stderr
    assert re.search(r"ratio +\d+\.\d+ +\d+\.\d+", done.stdout)
