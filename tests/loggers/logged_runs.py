"""Runs to log: metrics files that grow as a backend would write them, and loggers that remember."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from retrain.config import RunConfig
from retrain.loggers import LoggedRun
from retrain.report.metrics import MetricRow, MetricsLog
from retrain.report.run_folder import RunFolder


def config(folder: Path, loggers: Any) -> RunConfig:
    """A configuration that logs to `loggers`."""
    return RunConfig.model_validate(
        {
            "experiment_name": "logged",
            "output_dir": str(folder),
            "model": {"name_or_path": "tiny"},
            "environment": {"type": "calculator", "env_specific_config": {"api_key": "s3cret"}},
            "prompt_source": {"type": "list", "source_config": {"items": ["hello"]}},
            "algorithm": {
                "name": "grpo",
                "backend": "trl",
                "hyperparameters": {"num_iterations": 3},
            },
            "loggers": loggers,
        }
    )


def write_rows(folder: Path, *iterations: int, resume: bool = False) -> None:
    """Write two rows of each iteration, as slime's processes do."""
    with RunFolder.create(folder, resume=resume) as run:
        if resume:
            run.rewind(iterations[0] - 1)
        with MetricsLog(run.metrics) as log:
            for iteration in iterations:
                log.write(iteration, {"reward/mean": iteration / 10, "success": float("nan")})
                log.write(iteration, {"train/loss": -iteration})


class Remembering:
    """A logger that keeps what it was given."""

    made: list[Remembering]

    def __init__(self, run: LoggedRun, **settings: Any) -> None:
        self.run, self.settings = run, settings
        self.rows: list[MetricRow] = []
        self.ended_well: bool | None = None
        self.thread = threading.current_thread().name
        type(self).made.append(self)

    def write(self, row: MetricRow) -> None:
        self.rows.append(row)

    def close(self, *, ended_well: bool) -> None:
        self.ended_well = ended_well


class FullDisk(Remembering):
    """Its second row fails, as where the disk is full."""

    def write(self, row: MetricRow) -> None:
        super().write(row)
        if len(self.rows) > 1:
            raise OSError(28, "No space left on device")


class Exploding:
    """Cannot begin, in a way that nobody foresaw."""

    def __init__(self, run: LoggedRun) -> None:
        raise KeyError("no such project")


class Stuck(Remembering):
    """Never comes back from its first row, as over a dead connection."""

    released = threading.Event()

    def write(self, row: MetricRow) -> None:
        self.released.wait()
