"""How a batch is filled from more groups than it needs: the settings, the batch, the counting."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from retrain.errors import ConfigError
from retrain.rollout.filters import FilterResult, GroupFilter, judge
from retrain.rollout.partial import BufferFilter, pop_first
from retrain.types import Group


@dataclass(frozen=True, slots=True)
class OverSampling:
    """How a batch is filled.

    Attributes:
        batch_size: Groups of a batch.
        factor: How many groups are in play for each one that is still missing; 1.0 plays no more
            than are needed.
        filter: Which groups to train on; None keeps all.
        buffer_filter: Which half-played groups go on, and in which order.
        max_staleness: Iterations that a half-played group may have waited; one that has waited
            longer is begun again. None lets it wait for ever.
        max_refills: Groups that one batch may drop, as a multiple of `batch_size`.
        fallback: Where more are dropped: fill the batch with the latest of them instead of ending
            the run.
    """

    batch_size: int
    factor: float = 1.0
    filter: GroupFilter | None = None
    buffer_filter: BufferFilter = pop_first
    max_staleness: int | None = None
    max_refills: float = 8.0
    fallback: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.factor < 1.0 or self.max_refills < 0:
            raise ConfigError(
                "over-sampling needs batch_size >= 1, factor >= 1 and max_refills >= 0; got "
                f"{self.batch_size}, {self.factor:g} and {self.max_refills:g}"
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """What one iteration trains on.

    Attributes:
        iteration: Which one, from 0.
        groups: [batch_size] the groups, in the order in which their tasks were drawn.
        dropped: How many groups the filter dropped, by reason.
        fallback: How many of `groups` the filter refused, and were taken all the same.
        restarted: How many half-played groups were begun again, as too stale.
        carried: How many groups are left half played, or finished and not needed yet.
    """

    iteration: int
    groups: tuple[Group, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    fallback: int = 0
    restarted: int = 0
    carried: int = 0


class Filling:
    """A batch that is being filled."""

    def __init__(self, how: OverSampling) -> None:
        self._how = how
        self._spare: deque[tuple[str, Group]] = deque(maxlen=how.batch_size)
        self.fallback = 0
        self.kept: list[Group] = []
        self.dropped: Counter[str] = Counter()

    @property
    def missing(self) -> int:
        """How many groups the batch still needs."""
        return self._how.batch_size - len(self.kept)

    @property
    def target(self) -> int:
        """How many groups should be in play."""
        return math.ceil(self.missing * self._how.factor)

    async def take(self, group: Group) -> None:
        """Keep a finished group, or count why not."""
        result = await judge(self._how.filter, group) if self._how.filter else FilterResult(True)
        if result.keep:
            self.kept.append(group)
            return
        self.dropped[result.reason] += 1
        self._spare.append((result.reason, group))
        if self.dropped.total() > math.ceil(self._how.max_refills * self._how.batch_size):
            self._give_up()

    def _give_up(self) -> None:
        if self._how.fallback:
            while self.missing and self._spare:
                reason, group = self._spare.pop()
                self.kept.append(group)
                self.dropped[reason] -= 1
                self.fallback += 1
            return
        reasons = "\n".join(f"  {n} x {reason}" for reason, n in self.dropped.most_common(3))
        raise ConfigError(
            f"rollout.filter: dropped {self.dropped.total()} groups and kept {len(self.kept)} of "
            f"{self._how.batch_size}, more than max_refills {self._how.max_refills:g} x "
            f"{self._how.batch_size} allows; use a milder filter, easier tasks or more episodes "
            f"per task\n{reasons}"
        )
