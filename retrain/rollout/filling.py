"""How a batch is filled from more groups than it needs: the settings, the batch, the counting."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from retrain.errors import ConfigError
from retrain.rollout.filters import FilterResult, GroupFilter, judge
from retrain.rollout.partial import BufferFilter, pop_first
from retrain.rollout.playing import Finished
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
        max_staleness: Weight updates that a group may have seen since it was begun; one that has
            seen more is begun again. None is any number.
        max_refills: Groups that one batch may drop, as a multiple of `batch_size`.
        fallback: Where more are dropped: fill the batch with the latest of them instead of ending
            the run.
        partial: Whether groups that are half played when the batch is full go on in the next
            iteration; False gives them up, and counts them.
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
        finite = math.isfinite(self.factor) and math.isfinite(self.max_refills)
        if not finite or self.batch_size < 1 or self.factor < 1.0 or self.max_refills < 0:
            raise ConfigError(
                "over-sampling needs batch_size >= 1, and finite numbers for factor >= 1 and "
                f"max_refills >= 0; got {self.batch_size}, {self.factor:g} and {self.max_refills:g}"
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
        unfinished: How many groups were given up half played, as none may go on.
        restarted: How many groups were begun again, as too stale.
        replaced: How many visits failed and gave way to another task.
        continued: How many episodes went on from where a restart had interrupted them.
        carried: How many groups are left half played, or finished and not needed yet.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)
    fallback: int = 0
    unfinished: int = 0
    restarted: int = 0
    replaced: int = 0
    continued: int = 0
    carried: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            dict(Counter(self.dropped) + Counter(other.dropped)),
            self.fallback + other.fallback,
            self.unfinished + other.unfinished,
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
        self._spare: deque[tuple[str, Finished]] = deque(maxlen=how.batch_size)
        self._judged: list[Trajectory] = []
        self._fallen_back: set[int] = set()
        self._versions: dict[str, None] = {}
        self.kept: list[Finished] = []
        self.dropped: Counter[str] = Counter()
        self.unfinished = self.restarted = self.replaced = self.continued = 0

    @property
    def missing(self) -> int:
        """How many groups the batch still needs."""
        return self._how.batch_size - len(self.kept)

    @property
    def target(self) -> int:
        """How many groups should be in play."""
        return math.ceil(self.missing * self._how.factor)

    async def take(self, done: Finished) -> None:
        """Keep a finished group, or count why not.

        Raises:
            ConfigError: The filter is wrong.
        """
        group = done.group
        result = await judge(self._how.filter, group) if self._how.filter else FilterResult(True)
        self._judged += group.trajectories
        if result.keep:
            self.kept.append(done)
            return
        self.dropped[result.reason] += 1
        self._spare.append((result.reason, done))

    def check_refills(self) -> None:
        """Give up, or fall back, where too many groups were dropped.

        Raises:
            ConfigError: The filter drops too much.
            TooManyFailures: It does so because the episodes fail.
        """
        if self.dropped.total() > math.ceil(self._how.max_refills * self._how.batch_size):
            self._give_up()

    def check_failures(self) -> None:
        """Look at every episode that was judged for the batch.

        Raises:
            TooManyFailures: More of them failed than the configuration allows.
        """
        self._check(self._judged)

    def give_back(self, groups: Collection[Finished]) -> None:
        """Take groups out again that were kept."""
        self.kept = [done for done in self.kept if done not in groups]
        self._fallen_back -= {done.group.index for done in groups}

    def written_by(self, versions: Iterable[str]) -> None:
        """Note the weight versions that have written since the last time, oldest first."""
        self._versions |= dict.fromkeys(versions)

    def count(self, tally: Tally) -> None:
        """Count what became of groups before a restart."""
        self.dropped += Counter(tally.dropped)
        self.unfinished += tally.unfinished
        self.restarted += tally.restarted
        self.replaced += tally.replaced
        self.continued += tally.continued

    def counted(self) -> Tally:
        """What became of groups that are in no place any more."""
        return Tally(
            dropped=dict(+self.dropped),
            unfinished=self.unfinished,
            restarted=self.restarted,
            replaced=self.replaced,
            continued=self.continued,
        )

    def batch(self, iteration: int, carried: int) -> Batch:
        """The filled batch.

        Args:
            iteration: Its number.
            carried: How many groups are left.
        """
        groups = sorted((done.group for done in self.kept), key=lambda group: group.index)
        tally = replace(self.counted(), fallback=len(self._fallen_back), carried=carried)
        return Batch(iteration, tuple(groups), tally, tuple(self._versions))

    def _give_up(self) -> None:
        if self._how.fallback:
            while self.missing and self._spare:
                reason, done = self._spare.pop()
                self.kept.append(done)
                self.dropped[reason] -= 1
                self._fallen_back.add(done.group.index)
            return
        self.check_failures()
        reasons = "\n".join(f"  {n} x {reason}" for reason, n in self.dropped.most_common(3))
        raise ConfigError(
            f"rollout.filter: dropped {self.dropped.total()} groups and kept {len(self.kept)} of "
            f"{self._how.batch_size}, more than max_refills {self._how.max_refills:g} x "
            f"{self._how.batch_size} allows; use a milder filter, easier tasks or more episodes "
            f"per task\n{reasons}"
        )
