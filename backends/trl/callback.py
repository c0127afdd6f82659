"""What happens at the end of each iteration of TRL's loop."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from transformers import TrainerCallback

from backends.interrupt import GracefulInterrupt
from backends.recorder import Recorder
from retrain.launch import Launch

TRAIN_METRICS: Mapping[str, str] = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/learning_rate",
    "entropy": "train/entropy",
    "kl": "train/kl",
    "clip_ratio/region_mean": "train/clip_fraction",
    "logprob_abs_diff": "train/logprob_abs_diff",
    "logprob_abs_diff_current": "train/logprob_abs_diff_current",
}
"""TRL's log names to ours."""


class IterationCallback(TrainerCallback):
    """Writes a row per iteration, evaluates, and stops where the user asked to."""

    def __init__(
        self,
        recorder: Recorder,
        interrupt: GracefulInterrupt,
        launch: Launch,
        *,
        steps_per_iteration: int,
        evaluate: Callable[[int], None] | None = None,
        publish: Callable[[], None] | None = None,
        waited: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Make a callback.

        Args:
            recorder: Writes the rows.
            interrupt: Says whether the user asked to stop.
            launch: Which process this is; all stop where one was asked to.
            steps_per_iteration: Optimizer steps of one iteration.
            evaluate: Called with the iteration after each one; decides itself whether it is due.
            publish: Called when an iteration's metrics are recorded.
            waited: Seconds that the loop has waited for episodes so far: no part of training.
        """
        self._recorder = recorder
        self._interrupt = interrupt
        self._launch = launch
        self._steps = steps_per_iteration
        self._evaluate = evaluate
        self._publish = publish
        self._waited = waited
        self._began = 0.0
        self._seconds = 0.0
        self._logs: dict[str, list[float]] = defaultdict(list)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to time an optimizer step."""
        self._began = time.perf_counter() - self._waited()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask for a checkpoint and a stop, on a generation boundary only."""
        self._seconds += time.perf_counter() - self._waited() - self._began
        if state.global_step % self._steps:
            return
        if any(self._launch.gather([self._interrupt.requested])):
            control.should_save = True
            control.should_training_stop = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Collect the logs of an optimizer step; write the row after the iteration's last one."""
        if logs is None or "train_runtime" in logs:
            return
        for name, ours in TRAIN_METRICS.items():
            value = logs.get(name)
            if value is not None:
                self._logs[ours].append(float(value))
        if state.global_step % self._steps == 0:
            self._finish(state.global_step // self._steps)

    def _finish(self, iteration: int) -> None:
        metrics = {name: fmean(values) for name, values in self._logs.items()}
        if self._logs["train/learning_rate"]:
            metrics["train/learning_rate"] = self._logs["train/learning_rate"][-1]
        metrics["train/seconds"], self._seconds = self._seconds, 0.0
        self._logs.clear()
        self._recorder.trained(iteration, metrics)
        if self._evaluate is not None:
            self._evaluate(iteration)
        if self._publish is not None:
            self._publish()
