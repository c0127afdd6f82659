"""The rows about training, written by the process that trains.

slime calls `before_step` ahead of every optimizer step. What it logs afterwards reaches the
launcher late, through Ray, and not at all once that was killed; written here, the row of an
iteration stands in metrics.jsonl before the checkpoint of that iteration is begun.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.slime.following import LogFollower
from backends.slime.handover import read_handover
from retrain.report.metrics import MetricsLog
from retrain.report.run_folder import METRICS

BEFORE_STEP = "backends.slime.training_rows.before_step"
"""The function, as `--custom-megatron-before-train-step-hook-path` names it."""

_SLIME = "slime"
"""The logger above all of slime's."""


class TrainingRows(logging.Handler):
    """Hears what slime logs in this process and appends a row for every iteration trained."""

    def __init__(self, path: Path, *, steps_per_iteration: int) -> None:
        """Make a handler.

        Args:
            path: The metrics file; opened with the first row, for one process alone logs steps.
            steps_per_iteration: Optimizer steps of one iteration.
        """
        super().__init__(logging.INFO)
        self.rate = 0.0
        self._path = path
        self._metrics: MetricsLog | None = None
        self._follower = LogFollower(self._write, steps_per_iteration=steps_per_iteration)

    def emit(self, record: logging.LogRecord) -> None:
        """Read one record; a row that cannot be written ends the training, as elsewhere."""
        self._follower.line(record.getMessage())

    def _write(self, iteration: int, row: Mapping[str, float]) -> None:
        if self._metrics is None:
            self._metrics = MetricsLog(self._path)
        self._metrics.write(iteration, {**row, "train/learning_rate": self.rate})


_rows: TrainingRows | None = None


def before_step(
    args: Any, rollout_id: int, step_id: int, model: Any, optimizer: Any, opt_param_scheduler: Any
) -> None:
    """Note the learning rate of the step that begins, and listen from the first one on.

    slime itself logs the rate of the step after.

    Args:
        args: slime's arguments.
        rollout_id: Which rollout.
        step_id: Which of its optimizer steps.
        model: Megatron's model chunks.
        optimizer: Megatron's optimizer.
        opt_param_scheduler: Megatron's schedule.
    """
    global _rows
    if _rows is None:
        run_dir = read_handover(args).run_dir
        if run_dir is None:
            return
        rollouts = args.rollout_batch_size * args.n_samples_per_prompt
        steps = max(rollouts // args.global_batch_size, 1)
        _rows = TrainingRows(run_dir / METRICS, steps_per_iteration=steps)
        logging.getLogger(_SLIME).addHandler(_rows)
    _rows.rate = float(optimizer.param_groups[0]["lr"])
