"""`Visit`: one group in play, as the manager and the one who plays it share it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from retrain.engine.base import Generation
from retrain.rollout.request import GroupRequest
from retrain.types import Group

Written = Callable[[str], Generation | None]
"""Session -> what the engine has written of its running turn; None where nothing."""

Save = Callable[[Written], Awaitable[Mapping[str, Any]]]
"""Gives how far each episode of a group is, as JSON values by their place in the group."""


@dataclass(slots=True, eq=False)
class Visit:
    """One group in play.

    Attributes:
        request: What is played; another task once `refill` was called.
        begun: How often the weights had changed when it was begun.
        draw: Draws another task in place of one whose episodes failed, and counts that one.
        records: What `save` gave before a restart; empty for a group that begins.
        save: Set by the one who plays the group, where it can go on after a restart.
        continued: How many episodes went on from their records.
    """

    request: GroupRequest
    begun: int
    draw: Callable[[], GroupRequest]
    records: Mapping[str, Any] = field(default_factory=dict)
    save: Save | None = None
    continued: int = 0

    def refill(self) -> GroupRequest:
        """Play another task from now on; the present one counts as failed."""
        self.request, self.records = self.draw(), {}
        return self.request


@dataclass(frozen=True, slots=True)
class Finished:
    """A group that is played and scored, and not handed out yet.

    Attributes:
        begun: How often the weights had changed when it was begun.
        group: The group.
    """

    begun: int
    group: Group


Play = Callable[[Visit], Awaitable[Group]]
"""Plays, scores and returns one group; its engine is the manager's gate."""
