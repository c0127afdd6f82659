"""`Query`: which episodes a list shows, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from retrain.view.summary import EpisodeSummary, Flag


class Order(StrEnum):
    """How a list is sorted."""

    RUN = "run"
    NEWEST = "newest"
    REWARD_DOWN = "reward-down"
    REWARD_UP = "reward-up"
    ADVANTAGE_DOWN = "advantage-down"
    ADVANTAGE_UP = "advantage-up"
    LONGEST = "longest"
    SLOWEST = "slowest"


@dataclass(frozen=True, slots=True)
class Query:
    """Which episodes, and in which order; what is not given admits all.

    Attributes:
        flags: The episode has at least one of these.
        file: The samples file it stands in, such as "12" or "eval-80".
        split: "train", or an evaluation's name.
        least: Its reward is this or more.
        most: Its reward is this or less.
        words: Its task's name or its text has these, whatever the case of A to Z.
        order: How the list is sorted; ties stand in the order of the run.
    """

    flags: frozenset[Flag] = frozenset()
    file: str | None = None
    split: str | None = None
    least: float | None = None
    most: float | None = None
    words: str = ""
    order: Order = Order.NEWEST

    def admits(self, episode: EpisodeSummary) -> bool:
        """Whether an episode is in the list, its text left aside."""
        if self.flags and not self.flags & episode.flags:
            return False
        if self.split is not None and episode.split != self.split:
            return False
        return self._admits_reward(episode.reward)

    def _admits_reward(self, reward: float | None) -> bool:
        if self.least is None and self.most is None:
            return True
        if reward is None:
            return False
        return (self.least is None or reward >= self.least) and (
            self.most is None or reward <= self.most
        )


SORT_KEYS: dict[Order, Callable[[EpisodeSummary], float]] = {
    Order.REWARD_DOWN: lambda e: float("inf") if e.reward is None else -e.reward,
    Order.REWARD_UP: lambda e: float("inf") if e.reward is None else e.reward,
    Order.ADVANTAGE_DOWN: lambda e: -e.advantage,
    Order.ADVANTAGE_UP: lambda e: e.advantage,
    Order.LONGEST: lambda e: -e.tokens,
    Order.SLOWEST: lambda e: -e.seconds,
}
"""What the orders that take episodes out of their groups sort by."""
