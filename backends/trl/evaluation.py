"""Held-out evaluation of the model in training, by the same bridges and engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from transformers import TrainerCallback

from backends.recorder import Recorder
from backends.trl.collecting import Collector
from bridges import DataFormatBridge
from retrain.rollout.request import GroupRequest
from retrain.types import Task


class HeldOutEvaluation:
    """Plays the held-out tasks at every interval, and after the last iteration."""

    def __init__(
        self,
        tasks: Sequence[Task],
        collector: Collector,
        data_format: DataFormatBridge,
        recorder: Recorder,
        *,
        weights: Callable[[], AbstractContextManager[None]],
        interval: int | None,
        last: int,
    ) -> None:
        """Make an evaluation.

        Args:
            tasks: What is held out; empty evaluates nothing.
            collector: Plays and scores, with the evaluation's sampling.
            data_format: Turns episodes into samples, for the run folder.
            recorder: Records them.
            weights: Entered while an evaluation lasts, for the trainer's present weights.
            interval: Iterations between evaluations; None evaluates before and after the run only.
            last: The run's last iteration.
        """
        self._requests = [GroupRequest(i, task, 0) for i, task in enumerate(tasks)]
        self._collector = collector
        self._data_format = data_format
        self._recorder = recorder
        self._weights = weights
        self._interval = interval
        self._last = last

    def after(self, iteration: int) -> None:
        """Evaluate if it is due after an iteration."""
        due = self._interval is not None and iteration % self._interval == 0
        if due or iteration == self._last:
            self.run(iteration)

    def run(self, iteration: int) -> None:
        """Evaluate now; iteration 0 is before training."""
        if not self._requests:
            return
        with self._weights():
            collected = self._collector.collect(self._requests)
        samples = [
            sample
            for group in collected.groups
            for slot in self._data_format.group_samples(group)
            for sample in slot
        ]
        self._recorder.evaluated(iteration, collected.groups, samples, collected.seconds)


class EvaluationBefore(TrainerCallback):
    """Evaluates before the first step, when the trainer holds the model as it trains it.

    A sharded model is sharded only then, and gathered only then.
    """

    def __init__(self, evaluate: Callable[[int], None]) -> None:
        """Take `HeldOutEvaluation.run`."""
        self._evaluate = evaluate

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate iteration 0; a resumed run has done it."""
        if state.global_step == 0:
            self._evaluate(0)
