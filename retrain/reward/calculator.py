"""`RewardCalculator`: the weighted sum of named components, with a policy where one fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from retrain.errors import EpisodeError, EpisodeFailure, RewardFailure
from retrain.reward.components import OnFailure, RewardComponent, Scored
from retrain.reward.evaluation import Outcome, evaluate
from retrain.sample import Status
from retrain.types import Trajectory

_UNSCORED = (Status.FAILED, Status.ABORTED, Status.PENDING)


class RewardCalculator:
    """Scores episodes. Immutable; one calculator serves any number of calls at once.

    Args:
        components: The parts of the reward.
        concurrency: Most reward functions that run at once within one call of `score`.

    Raises:
        ValueError: There is no component, or two have one name.
    """

    def __init__(self, components: Sequence[RewardComponent], *, concurrency: int = 64) -> None:
        names = [component.name for component in components]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a reward needs components with different names, got {names}")
        self.components = tuple(components)
        self.concurrency = concurrency

    @property
    def reads_environments(self) -> bool:
        """Whether a component may read the environment of an episode (`Trajectory.witness`)."""
        return any(component.function is not None for component in self.components)

    async def score(self, trajectories: Sequence[Trajectory]) -> tuple[Scored, ...]:
        """Score episodes.

        Args:
            trajectories: The episodes, of one group or of many.

        Returns:
            One result per episode, in order. Failed and aborted episodes are not scored.

        Raises:
            RewardFailure: A component failed whose `on_failure` is `raise`.
        """
        slots = asyncio.Semaphore(self.concurrency)
        scorable = [t for t in trajectories if t.status not in _UNSCORED and t.turns]
        columns = await asyncio.gather(*(evaluate(c, scorable, slots) for c in self.components))
        self._raise_first(columns)
        rows = iter([self._combine(row) for row in zip(*columns, strict=True)])
        return tuple(
            Scored(None, error=t.error) if t.status in _UNSCORED or not t.turns else next(rows)
            for t in trajectories
        )

    def _raise_first(self, columns: Sequence[Sequence[Outcome]]) -> None:
        for component, column in zip(self.components, columns, strict=True):
            failures = (outcome for outcome in column if isinstance(outcome, EpisodeFailure))
            if component.on_failure is OnFailure.RAISE:
                for failure in failures:
                    raise failure

    def _combine(self, row: Sequence[Outcome]) -> Scored:
        raw: dict[str, float] = {}
        error: EpisodeError | None = None
        dropped = False
        for component, outcome in zip(self.components, row, strict=True):
            value = outcome
            if isinstance(value, EpisodeFailure):
                error = error or EpisodeError.of(value)
                value = component.value if component.on_failure is OnFailure.VALUE else None
                dropped = dropped or value is None
            if value is not None:
                raw[component.name] = value
        if dropped or not raw:
            return Scored(None, raw, error, dropped)
        total = sum(c.weight * raw[c.name] for c in self.components if c.name in raw)
        if not math.isfinite(total):
            failure = RewardFailure(f"the weighted sum of {raw} is not finite")
            return Scored(None, raw, EpisodeError.of(failure), dropped=True)
        return Scored(total, raw, error)
