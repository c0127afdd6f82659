"""A folder with a configuration, and the command line run in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from retrain.cli.main import app

TASKS = [
    {"id": "sum", "prompt": "75+99 then *6", "label": "1044"},
    {"id": "difference", "prompt": "40-24 then *9", "label": "144"},
    {"id": "small", "prompt": "10+10 then -2", "label": "18"},
    {"id": "large", "prompt": "99+99 then +9", "label": "207"},
]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@dataclass
class Workspace:
    """A folder with a configuration, a model and tasks, and the command line run in it."""

    folder: Path
    config: dict[str, Any]

    @property
    def hyper(self) -> dict[str, Any]:
        hyper: dict[str, Any] = self.config["algorithm"]["hyperparameters"]
        return hyper

    @property
    def tasks(self) -> Path:
        return self.folder / "tasks.jsonl"

    @property
    def output(self) -> Path:
        return self.folder / "run"

    def save(self) -> None:
        (self.folder / "c.yaml").write_text(json.dumps(self.config), encoding="utf-8")

    def own_model(self) -> Path:
        """A copy of the model that a test may damage."""
        model = self.folder / "model"
        shutil.copytree(self.config["model"]["name_or_path"], model)
        self.config["model"]["name_or_path"] = str(model)
        return model

    def run(self, command: str, *arguments: str) -> Result:
        """Run `retrain COMMAND c.yaml …` in this process."""
        self.save()
        result: Any = CliRunner().invoke(app, [command, "c.yaml", *arguments])
        assert "Traceback" not in result.output, result.output
        return result

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Start `python -m retrain COMMAND c.yaml …` as a process of its own."""
        self.save()
        return subprocess.Popen(
            [sys.executable, "-m", "retrain", command, "c.yaml", *arguments],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
