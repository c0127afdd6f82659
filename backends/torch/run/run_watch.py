"""Watches of a run that has a run folder: they record, evaluate, save, and heed Ctrl-C."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import run_shape
from backends.recorder import Recorder
from backends.torch.protocol import Metrics
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.run.bridged import HeldOut

TakeState = Callable[[], Awaitable[Mapping[str, Any]]]
"""Gives what a resume needs besides the backend's own files."""


@dataclass(frozen=True, slots=True)
class RunWatch:
    """The watch of both loops.

    Attributes:
        plan: What is run.
        backend: What trains; saves the checkpoints.
        recorder: Writes the run folder.
        interrupt: Says whether the user asked to stop.
        state: Gives the place in the data.
        held_out: Evaluates; None where nothing is held out.
        resumed: Whether the run goes on from a checkpoint, and was evaluated before training.
    """

    plan: Plan
    backend: PyTorchTrainingBackend
    recorder: Recorder
    interrupt: GracefulInterrupt
    state: TakeState
    held_out: HeldOut | None = None
    resumed: bool = False

    async def begin(self) -> None:
        """Evaluate before training."""
        if self.held_out is not None and not self.resumed:
            await self.held_out.run(0)

    async def after(self, iteration: int, metrics: Metrics) -> bool:
        """Record an iteration, and evaluate where it is due."""
        self.recorder.trained(iteration, {k: v for k, v in metrics.items() if k != "step"})
        every, last = self.plan.config.eval_interval, self.plan.sizes["iterations"]
        due = iteration == last or (every is not None and iteration % every == 0)
        if self.held_out is not None and due:
            await self.held_out.run(iteration)
        return self.interrupt.requested

    async def save(self, backend: Any, iteration: int, metrics: Metrics) -> None:
        """Save a checkpoint with the place in the data inside."""
        state = await self.state()
        step = self.backend.step
        await self.backend.save_checkpoint(step, metrics, state=state, shape=run_shape(self.plan))
