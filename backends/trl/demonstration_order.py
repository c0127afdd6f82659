"""`DemonstrationOrder`: SFT's rows in the order in which the data buffer draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import Sampler

from retrain.rollout.buffer import DataBuffer
from retrain.types import Task


class DemonstrationOrder(Sampler[int]):
    """The rows of a whole run, one optimizer step's after the other's.

    It is a single pass over all steps rather than one pass per epoch: a step that begins in one
    epoch takes the rest of its rows from the next, as on every backend, and a resumed trainer that
    skips the steps it has done stands where the checkpoint stood.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        make_buffer: Callable[[], DataBuffer],
        *,
        steps: int,
        batch: int,
    ) -> None:
        """Draw the rows.

        Args:
            tasks: The demonstrations; a row's number is its place here.
            make_buffer: Makes a buffer over them that stands where the run begins.
            steps: Optimizer steps of the run.
            batch: Rows of one optimizer step, of all processes together.
        """
        rows = {task.id: row for row, task in enumerate(tasks)}
        self._rows = [rows[request.task.id] for request in make_buffer().draw(steps * batch)]
        self._batch = batch
        self._behind = make_buffer()
        self._steps_behind = 0

    def __iter__(self) -> Iterator[int]:
        """The rows' numbers."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Optimizer steps x rows of one."""
        return len(self._rows)

    def state_after(self, step: int) -> dict[str, Any]:
        """The state of the data buffer after an optimizer step; steps must not be asked backward.

        Args:
            step: How many optimizer steps are done.
        """
        self._behind.draw((step - self._steps_behind) * self._batch)
        self._steps_behind = step
        return self._behind.state_dict()
