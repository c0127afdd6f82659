"""The examples train as their READMEs say, in a copy of their folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("example", "package", "run", "rise"),
    [
        ("custom_environment", "torch", "guess_number", 0.2),
        ("reasoning_gym", "reasoning_gym", "reasoning_gym", 0.4),
        ("textarena", "textarena", "textarena", 0.5),
    ],
)
def test_success_on_held_out_tasks_rises(
    tmp_path: Path, example: str, package: str, run: str, rise: float
) -> None:
    if find_spec(package) is None:
        pytest.skip(f"needs {package}")
    folder = tmp_path / example
    left_out = shutil.ignore_patterns("generated", "runs", "__pycache__")
    shutil.copytree(ROOT / "examples" / example, folder, ignore=left_out)
    command(folder, "prepare.py")
    retrain = "from retrain.cli.main import main; main()"
    command(folder, "-c", retrain, "train", "config.yaml")

    metrics = folder / "runs" / run / "stages" / "grpo" / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    success = [row["eval/success"] for row in rows if "eval/success" in row]
    assert success[-1] - success[0] > rise


def command(folder: Path, *words: str) -> None:
    """Run Python in the folder."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
