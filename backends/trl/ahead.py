"""Collecting the next batch while TRL trains on this one, with an engine of its own weights."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from backends.trl.batching import BatchFiller, Filled
from backends.trl.collecting import in_step
from backends.trl.weights import WeightKeeper
from retrain.launch import Launch
from retrain.report.filling_metrics import stale_tokens
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.manager import RolloutManager
from retrain.runtime import EventLoopThread
from retrain.types import Group, Task


class AheadBatches(BatchFiller):
    """Has the next batch collected on the loop while the trainer's thread trains on the last one.

    Each process collects its own share. Nothing is collected beyond the run's last iteration.
    """

    def __init__(
        self,
        manager: RolloutManager,
        how: OverSampling,
        n_samples: int,
        loop: EventLoopThread,
        launch: Launch,
        *,
        steps: int,
        end: int,
    ) -> None:
        """Make a filler.

        Args:
            manager: As `BatchFiller`'s, like the three that follow it.
            how: How a batch is filled.
            n_samples: G, episodes of a group.
            loop: Runs the episodes.
            launch: Which process this is.
            steps: Optimizer steps of one iteration.
            end: The optimizer step at which the run ends.
        """
        super().__init__(manager, how, n_samples, loop, launch)
        self._ahead = CollectingAhead(manager)
        self._steps = steps
        self._end = end
        self._step: int | None = None

    def fill(self) -> Filled:
        """Give the batch that was collected ahead, and have the next one begun.

        Raises:
            RetrainError: What failed while it was collected, here or on another rank.
        """
        filled, fresh = super().fill(), frozenset({str(self._engine_step)})
        seconds = max(self._launch.gather([self._ahead.seconds]))
        return replace(filled, fresh=fresh, seconds=seconds)

    @contextmanager
    def weights_changing(self, step: int) -> Iterator[None]:
        """Keep every process's groups out of the engine while the context lasts; then they go on.

        After a restart the engine gets the weights of the checkpoint, which is no change where the
        groups had seen them before.

        Args:
            step: The optimizer step whose weights the engine gets.
        """
        seen, self._step = step == self._step, step
        with ExitStack() as still:
            if not seen:
                changing = self._loop.entered(self._ahead.weights_changing())
                in_step(lambda: still.enter_context(changing), self._launch)
            yield

    def metrics(self, filled: Filled) -> dict[str, float]:
        """As `BatchFiller.metrics`, with the age of the batch."""
        return {
            **super().metrics(filled),
            "rollout/stale_tokens": stale_tokens(filled.groups, filled.fresh),
            "rollout/staleness": self._staleness(filled.groups),
        }

    def close(self) -> None:
        """Stop collecting."""
        self._loop.run(self._ahead.close())

    def state(self, buffer: DataBuffer) -> dict[str, Any]:
        """As `BatchFiller.state`, what is collected ahead included."""
        return {**super().state(buffer), "weights_step": self._step}

    def load(self, state: Mapping[str, Any], buffer: DataBuffer, tasks: Mapping[str, Task]) -> None:
        """As `BatchFiller.load`; a run that did not collect ahead has counted its last update."""
        super().load(state, buffer, tasks)
        self._step = state.get("weights_step", state["step"])

    def _count_last_update(self, state: Mapping[str, Any]) -> None:
        """`weights_changing` counts it, when the engine gets these weights."""

    def _collect(self) -> Coroutine[Any, Any, Batch]:
        return self._ahead.collect(last=self._engine_step + self._steps >= self._end)

    def _staleness(self, groups: Sequence[Group]) -> int:
        """Updates since the oldest of the weights that wrote `groups`; versions are steps."""
        wrote = [
            int(version)
            for group in groups
            for episode in group.trajectories
            for turn in episode.turns
            for _, version in turn.spans
        ]
        return (self._engine_step - min(wrote, default=self._engine_step)) // self._steps

    @property
    def _engine_step(self) -> int:
        """The step whose weights the engine has."""
        assert self._step is not None, "the weights are sent before a batch is filled"
        return self._step


class WeightsWhileCollecting:
    """The keeper of an engine that writes while the trainer trains.

    Its turns stand still while the weights change: no turn is written by two of them under one
    version, and none goes on before the engine has told its answer to the probe.
    """

    def __init__(self, keeper: WeightKeeper, batches: AheadBatches) -> None:
        """Make a keeper.

        Args:
            keeper: Sends the weights.
            batches: Collects meanwhile.
        """
        self._keeper = keeper
        self._batches = batches
        self._trainer: Any = None

    def attach(self, trainer: Any) -> None:
        """See `WeightKeeper`."""
        self._trainer = trainer
        self._keeper.attach(trainer)

    @property
    def due(self) -> bool:
        """See `WeightKeeper`."""
        return self._keeper.due

    def sync(self) -> None:
        """See `WeightKeeper`.

        Raises:
            RetrainError: What failed on this process, or which rank failed.
        """
        if not self.due:
            return
        step = self._trainer.state.global_step
        with self._batches.weights_changing(step), self._keeper.current():
            pass  # they are sent now, and the probe is answered

    @contextmanager
    def current(self) -> Iterator[None]:
        """See `WeightKeeper`; groups that are collected ahead go on while the context lasts."""
        self.sync()
        with self._keeper.current():
            yield

    def measured(self, gap: float) -> None:
        """See `WeightKeeper`."""
        self._keeper.measured(gap)

    def drifted(self, gap: float) -> None:
        """See `WeightKeeper`."""
        self._keeper.drifted(gap)
