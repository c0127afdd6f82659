"""How a batch is filled from more groups than it needs: the settings, the batch, the counting."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from retrain.errors import ConfigError
from retrain.rollout.filters import FilterResult, GroupFilter, judge
from retrain.rollout.partial import BufferFilter, pop_first
from retrain.types import Group, Trajectory

FailureCheck = Callable[[Iterable[Trajectory]], None]
"""Raises `TooManyFailures` where too many of a batch's episodes failed."""


@dataclass(frozen=True, slots=True)
class OverSampling:
    """How a batch is filled.

    Attributes:
        batch_size: Groups of a batch.
        factor: How many groups are in play for each one that is still missing; 1.0 plays no more
            than are needed.
        filter: Which groups to train on; None keeps all.
        buffer_filter: Which half-played groups go on, and in which order.
        max_staleness: Iterations that a group may have waited since it was begun; one that has
            waited longer is begun again. None lets it wait for ever.
        max_refills: Groups that one batch may drop, as a multiple of `batch_size`.
        fallback: Where more are dropped: fill the batch with the latest of them instead of ending
            the run.
        partial: Whether groups that are half played when the batch is full go on in the next
            iteration; False begins them again.
        mask_stale: Whether tokens of older weights are not trained on. A group that waits finished
            has no others, so it is begun again.
    """

    batch_size: int
    factor: float = 1.0
    filter: GroupFilter | None = None
    buffer_filter: BufferFilter = pop_first
    max_staleness: int | None = None
    max_refills: float = 8.0
    fallback: bool = False
    partial: bool = True
    mask_stale: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.factor < 1.0 or self.max_refills < 0:
            raise ConfigError(
                "over-sampling needs batch_size >= 1, factor >= 1 and max_refills >= 0; got "
                f"{self.batch_size}, {self.factor:g} and {self.max_refills:g}"
            )

    @property
    def plain(self) -> bool:
        """Whether every drawn group is waited for and trained on, so that nothing is ever left."""
        return self.factor == 1.0 and self.filter is None


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the groups of one iteration that are not in its batch.

    Attributes:
        dropped: How many groups the filter dropped, by reason.
        fallback: How many groups of the batch the filter refused, and were taken all the same.
        restarted: How many groups were begun again, as too stale or as none may go on.
        replaced: How many visits failed and gave way to another task.
        continued: How many episodes went on from where a restart had interrupted them.
        carried: How many groups are left half played, or finished and not needed yet.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)
    fallback: int = 0
    restarted: int = 0
    replaced: int = 0
    continued: int = 0
    carried: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            dict(Counter(self.dropped) + Counter(other.dropped)),
            self.fallback + other.fallback,
            self.restarted + other.restarted,
            self.replaced + other.replaced,
            self.continued + other.continued,
            self.carried + other.carried,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What one iteration trains on.

    Attributes:
        iteration: Which one, from 0.
        groups: [batch_size] the groups, in the order in which their tasks were drawn.
        tally: What became of the others.
        versions: The weight versions that wrote in this iteration, oldest first.
    """

    iteration: int
    groups: tuple[Group, ...]
    tally: Tally = field(default_factory=Tally)
    versions: tuple[str, ...] = ()


class Filling:
    """A batch that is being filled."""

    def __init__(self, how: OverSampling, check: FailureCheck) -> None:
        """Begin with an empty batch.

        Args:
            how: How it is filled.
            check: Raises where too many episodes failed, whether their groups are kept or not.
        """
        self._how = how
        self._check = check
        self._spare: deque[tuple[str, Group]] = deque(maxlen=how.batch_size)
        self._judged: list[Trajectory] = []
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
        """Keep a finished group, or count why not.

        Raises:
            ConfigError: The filter is wrong, or drops too much.
            TooManyFailures: It drops too much because the episodes fail.
        """
        self._judged += group.trajectories
        result = await judge(self._how.filter, group) if self._how.filter else FilterResult(True)
        if result.keep:
            self.kept.append(group)
            return
        self.dropped[result.reason] += 1
        self._spare.append((result.reason, group))
        if self.dropped.total() > math.ceil(self._how.max_refills * self._how.batch_size):
            self._give_up()

    def check_failures(self) -> None:
        """Look at every episode that was judged for the batch.

        Raises:
            TooManyFailures: More of them failed than the configuration allows.
        """
        self._check(self._judged)

    def in_order(self) -> Sequence[Group]:
        """The kept groups, in the order in which their tasks were drawn."""
        return sorted(self.kept, key=lambda group: group.index)

    def _give_up(self) -> None:
        if self._how.fallback:
            while self.missing and self._spare:
                reason, group = self._spare.pop()
                self.kept.append(group)
                self.dropped[reason] -= 1
                self.fallback += 1
            return
        self.check_failures()
        reasons = "\n".join(f"  {n} x {reason}" for reason, n in self.dropped.most_common(3))
        raise ConfigError(
            f"rollout.filter: dropped {self.dropped.total()} groups and kept {len(self.kept)} of "
            f"{self._how.batch_size}, more than max_refills {self._how.max_refills:g} x "
            f"{self._how.batch_size} allows; use a milder filter, easier tasks or more episodes "
            f"per task\n{reasons}"
        )
