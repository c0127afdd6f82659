"""`RewardCalculator`: named components combined into one number, and a policy where one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retrain.errors import EpisodeError, RewardFailure
from retrain.reward.combination import Combination, Combine, weighted_sum
from retrain.reward.components import Measured, OnFailure, RewardComponent, Scored
from retrain.reward.evaluation import Outcome, evaluate, recorded
from retrain.reward.normalisation import UNCHANGED, Normalising
from retrain.reward.shaping import Shaping
from retrain.reward.taking import Takes
from retrain.sample import Status
from retrain.types import Scoring, Trajectory

_UNSCORED = (Status.FAILED, Status.ABORTED, Status.PENDING)


class RewardCalculator:
    """Scores episodes. Immutable; one calculator serves any number of calls at once.

    Args:
        components: The parts of the reward.
        concurrency: Most reward functions that run at once within one call of `score`.
        combine: Makes one number of the components' values.
        rescale: Whether a sum with missing components is brought to the scale of a whole one.
        normalisation: What becomes of the combined reward before advantages are computed from it.

    Raises:
        ValueError: There is no component, or two have one name.
    """

    def __init__(
        self,
        components: Sequence[RewardComponent],
        *,
        concurrency: int = 64,
        combine: Combine = weighted_sum,
        rescale: bool = False,
        normalisation: Normalising = UNCHANGED,
    ) -> None:
        names = [component.name for component in components]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a reward needs components with different names, got {names}")
        self.components = tuple(components)
        self.concurrency = concurrency
        weights = {component.name: component.weight for component in components}
        self.combination = Combination(combine, weights, rescale)
        self.shaping = Shaping(
            {component.name: component.normalisation for component in components},
            self.combination,
            normalisation,
        )

    @property
    def reads_environments(self) -> bool:
        """Whether a component may read the environment of an episode (`Trajectory.witness`)."""
        return any(component.function is not None for component in self.components)

    @property
    def needs_groups(self) -> bool:
        """Whether a function must be given whole groups."""
        return any(component.takes is Takes.GROUP for component in self.components)

    def measured(self) -> dict[str, float]:
        """What components that ask a server counted since the last call, by name of the metric."""
        counted: dict[str, float] = {}
        for component in self.components:
            if isinstance(component.function, Measured):
                for name, value in component.function.measured().items():
                    counted[f"reward/{component.name}/{name}"] = value
        return counted

    def summaries(self) -> list[str]:
        """What such components counted in all, a line for each that was asked."""
        return [
            f"reward {component.name}: {line}"
            for component in self.components
            if isinstance(component.function, Measured) and (line := component.function.summary())
        ]

    def close(self) -> None:
        """Close the connections of such components, from any thread; scoring opens new ones."""
        for component in self.components:
            if isinstance(component.function, Measured):
                component.function.close()

    async def score(self, trajectories: Sequence[Trajectory]) -> tuple[Scored, ...]:
        """Score episodes.

        Args:
            trajectories: The episodes, of one group or of many.

        Returns:
            One result per episode, in order, of raw values. Failed and aborted episodes are not
            scored.

        Raises:
            RewardFailure: A component failed whose `on_failure` is `raise`.
        """
        slots = asyncio.Semaphore(self.concurrency)
        scorable = [t for t in trajectories if t.status not in _UNSCORED and t.turns]
        columns = await asyncio.gather(*(evaluate(c, scorable, slots) for c in self.components))
        self._raise_first(columns)
        rows = zip(scorable, zip(*columns, strict=True), strict=True)
        scores = iter([self._combine(trajectory, row) for trajectory, row in rows])
        return tuple(
            Scored(None, error=t.error) if t.status in _UNSCORED or not t.turns else next(scores)
            for t in trajectories
        )

    def _raise_first(self, columns: Sequence[Sequence[Outcome]]) -> None:
        for component, column in zip(self.components, columns, strict=True):
            if component.on_failure is OnFailure.RAISE:
                for outcome in column:
                    if outcome.failure is not None:
                        raise outcome.failure

    def _combine(self, trajectory: Trajectory, row: Sequence[Outcome]) -> Scored:
        notes = _Notes()
        for component, outcome in zip(self.components, row, strict=True):
            notes.take(component, outcome, trajectory)
        scoring, error = notes.scoring, notes.error
        if notes.dropped or not notes.raw:
            return Scored(None, notes.raw, error, notes.dropped, scoring)
        try:
            return Scored(self.combination(notes.raw), notes.raw, error, scoring=scoring)
        except RewardFailure as failure:
            reason = error or EpisodeError.of(failure)
            return Scored(None, notes.raw, reason, dropped=True, scoring=scoring)


@dataclass(slots=True)
class _Notes:
    """What the components of one episode come to."""

    raw: dict[str, float] = field(default_factory=dict)
    turns: dict[str, tuple[float, ...]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    retries: dict[str, int] = field(default_factory=dict)
    error: EpisodeError | None = None
    dropped: bool = False

    @property
    def scoring(self) -> Scoring | None:
        """What is worth keeping besides the values."""
        parts: tuple[Mapping[str, object], ...] = (self.turns, self.failures, self.retries)
        if not any(parts):
            return None
        return Scoring(turns=self.turns, failures=self.failures, retries=self.retries)

    def take(self, component: RewardComponent, outcome: Outcome, trajectory: Trajectory) -> None:
        """Note the outcome of one component."""
        value = outcome.value
        if outcome.failure is not None:
            self.error = self.error or EpisodeError.of(outcome.failure)
            self.failures[component.name] = outcome.reason
            value = component.value if component.on_failure is OnFailure.VALUE else None
            self.dropped = self.dropped or value is None
        if outcome.retries:
            self.retries[component.name] = outcome.retries
        if value is None:
            return
        self.raw[component.name] = value
        if turns := recorded(component, value, outcome, trajectory):
            self.turns[component.name] = turns
