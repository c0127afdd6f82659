"""`LogFollower`: what slime's log says, as metrics rows and as the reason of a failure."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean

from backends.slime.following_errors import ErrorReader

OnRow = Callable[[int, Mapping[str, float]], None]
"""Takes an iteration, from 1, and the row of its training."""

TRAIN_METRICS: Mapping[str, str] = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "lr-pg_0": "train/learning_rate",
    "entropy_loss": "train/entropy",
    "kl_loss": "train/kl",
    "pg_clipfrac": "train/clip_fraction",
    "train_rollout_logprob_abs_diff": "train/logprob_abs_diff",
}
"""slime's names, after "train/", to ours."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEP = re.compile(r"(?:^| - )step (\d+): \{(.*)\}")
_PERF = re.compile(r"(?:^| - )perf (\d+): \{(.*)\}")
_PAIR = re.compile(r"'([^']+)': (?:[\w.]+\()*(-?(?:inf|nan|[\d.]+(?:e[+-]?\d+)?))", re.IGNORECASE)


class LogFollower:
    """Reads slime's log line by line.

    slime logs `step N: {...}` for every optimizer step and, when a rollout is trained on,
    `perf N: {...}` with the rollout's number and the time of the training
    (slime/backends/megatron_utils/model.py, slime/observability/train_metric_utils.py).
    """

    def __init__(self, on_row: OnRow, *, steps_per_iteration: int = 1) -> None:
        """Make a follower.

        Args:
            on_row: Called once for every iteration that is trained, in order.
            steps_per_iteration: Optimizer steps of one iteration, where the plan knows.
        """
        self.last_line_at = time.monotonic()
        self._on_row = on_row
        self._steps = steps_per_iteration
        self._errors = ErrorReader()
        self._iteration: int | None = None
        self._values: dict[str, list[float]] = defaultdict(list)

    def line(self, text: str) -> None:
        """Read one line of the log."""
        self.last_line_at = time.monotonic()
        plain = _ANSI.sub("", text).rstrip()
        self._errors.line(plain)
        if step := _STEP.search(plain):
            self._step(int(step[1]), _numbers(step[2]))
        elif perf := _PERF.search(plain):
            self._trained(int(perf[1]), _numbers(perf[2]))

    def failure(self) -> str | None:
        """The error that ended the run, as the log has it; None where it holds none."""
        return self._errors.failure()

    def close(self) -> None:
        """Give out the row of an iteration whose end the log does not tell."""
        self._flush()

    def _step(self, step: int, values: Mapping[str, float]) -> None:
        iteration = step // self._steps + 1
        if self._iteration not in (None, iteration):
            self._flush()
        self._iteration = iteration
        for name, ours in TRAIN_METRICS.items():
            if (value := values.get(f"train/{name}")) is not None:
                self._values[ours].append(value)

    def _trained(self, rollout: int, values: Mapping[str, float]) -> None:
        seconds = values.get("perf/actor_train_time", values.get("perf/train_time"))
        if seconds is None:  # the rollout's own line has the same name and no such time
            return
        self._iteration = rollout + 1
        self._values["train/seconds"].append(seconds)
        self._flush()

    def _flush(self) -> None:
        if self._iteration is not None and self._values:
            row = {name: fmean(values) for name, values in self._values.items()}
            for name, index in (("train/learning_rate", -1), ("train/logprob_abs_diff", 0)):
                if name in row:
                    row[name] = self._values[name][index]
            self._on_row(self._iteration, row)
        self._iteration = None
        self._values.clear()


def _numbers(text: str) -> dict[str, float]:
    """The numbers of a dictionary as Python prints it; NaN, infinities and NumPy's included."""
    return {name: float(value) for name, value in _PAIR.findall(text)}
