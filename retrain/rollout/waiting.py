"""`WaitingTasks`: what is drawn and not in play, to be begun before anything else is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from retrain.rollout.manager_state import Pending
from retrain.rollout.request import GroupRequest


class Draws(Protocol):
    """Where the tasks come from; `DataBuffer` is one."""

    def draw(self, count: int) -> list[GroupRequest]:
        """The next tasks."""
        ...


class WaitingTasks:
    """The tasks that wait to be begun, in the order drawn; when they are used up, others are drawn.

    Attributes:
        pending: They, with how far their episodes are where a restart interrupted them.
    """

    def __init__(self, draws: Draws) -> None:
        """Wait for nothing.

        Args:
            draws: Gives further tasks.
        """
        self._draws = draws
        self.pending: list[Pending] = []

    def put(self, waiting: Iterable[Pending]) -> None:
        """Take tasks in that are drawn already."""
        self.pending = sorted([*self.pending, *waiting], key=lambda item: item.request.index)

    def take(self, count: int) -> list[Pending]:
        """Give the next `count` tasks; where drawing fails, those that wait go on waiting."""
        missing = count - len(self.pending)
        drawn = self._draws.draw(missing) if missing > 0 else []
        taken, self.pending = self.pending[:count], self.pending[count:]
        return [*taken, *map(Pending, drawn)]

    def take_another(self) -> GroupRequest:
        """Give a task in place of one that failed: one that would lose no half-played episodes."""
        for place, waiting in enumerate(self.pending):
            if not waiting.records:
                del self.pending[place]
                return waiting.request
        return self._draws.draw(1)[0]
