"""What a loop tells about its progress, and what it asks before it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from backends.torch.objective import CURRENT_GAP, CURRENT_SHARE
from backends.torch.protocol import Metrics, TrainingBackend


class MetricsLogger(Protocol):
    """Takes a row of metrics."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write one.

        Args:
            metrics: Numbers by name.
            step: The iteration, from 1; of imitation, the optimizer step.
        """
        ...


class Watch(Protocol):
    """Accompanies a loop: records, evaluates, says when to stop and what a checkpoint must hold."""

    async def begin(self) -> None:
        """Called once, when the engines have the weights that the loop begins with."""
        ...

    async def after(self, iteration: int, metrics: Metrics) -> bool:
        """Called after an iteration, counted from 1, when the engines have its weights.

        Returns:
            Whether to stop here; a checkpoint is saved first.
        """
        ...

    async def save(self, backend: TrainingBackend, iteration: int, metrics: Metrics) -> None:
        """Save a checkpoint."""
        ...


class LoggingWatch:
    """The watch of those who give none: it logs, saves checkpoints, and never stops."""

    def __init__(self, logger: MetricsLogger | None, every: int) -> None:
        """Log every so many iterations."""
        self._logger = logger
        self._every = every

    async def begin(self) -> None:
        """See `Watch`."""

    async def after(self, iteration: int, metrics: Metrics) -> bool:
        """See `Watch`."""
        if self._logger is not None and iteration % self._every == 0:
            self._logger.log(metrics, step=iteration)
        return False

    async def save(self, backend: TrainingBackend, iteration: int, metrics: Metrics) -> None:
        """See `Watch`."""
        await backend.save_checkpoint(backend.step, metrics)


def mean_metrics(steps: list[Metrics]) -> Metrics:
    """The metrics of an iteration from those of its optimizer steps.

    Means, but for the learning rate, which is the last one's, and for the distances from the
    engine's log-probabilities, which mean something before the first update only.
    """
    names = dict.fromkeys(name for step in steps for name in step if name != "step")
    found = {name: [step[name] for step in steps if name in step] for name in names}
    share = found.pop(CURRENT_SHARE, [0.0])[0]
    gap = found.pop(CURRENT_GAP, [0.0])[0]
    means = {name: sum(values) / len(values) for name, values in found.items()}
    chosen: dict[str, Any] = {"train/learning_rate": -1, "train/logprob_abs_diff": 0}
    return {
        **{n: found[n][chosen[n]] if n in chosen else mean for n, mean in means.items()},
        **({CURRENT_GAP: gap / share} if share else {}),
    }
