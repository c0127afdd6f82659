"""What happens when an episode fails, boundary by boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from retrain.errors import Boundary, EpisodeError, TooManyFailures
from retrain.types import Trajectory


class FailureAction(StrEnum):
    """What to do with a failed episode.

    `MASK` keeps its slot and trains nothing of it. `RETRY` begins it again, at most `retries`
    times, then masks it. `REFILL` plays another task in place of its group. `RAISE` ends the run.
    """

    MASK = "mask"
    RETRY = "retry"
    REFILL = "refill"
    RAISE = "raise"


def _defaults() -> dict[Boundary, FailureAction]:
    return {
        Boundary.ENVIRONMENT: FailureAction.MASK,
        Boundary.TOOL: FailureAction.MASK,
        Boundary.RENDERING: FailureAction.MASK,
        Boundary.ENGINE: FailureAction.RAISE,
        Boundary.REWARD: FailureAction.MASK,
    }


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The action for each boundary, and how much failure a run bears.

    Attributes:
        actions: By boundary. The engine's turns have already been retried, with the same seed,
            when its action applies.
        retries: How often `RETRY` begins an episode again.
        max_failure_rate: The largest share of a batch's episodes that may fail, 0 to 1.
    """

    actions: Mapping[Boundary, FailureAction] = field(default_factory=_defaults)
    retries: int = 2
    max_failure_rate: float = 0.5

    def action(self, error: EpisodeError) -> FailureAction:
        """What to do about one failure."""
        return self.actions.get(error.boundary, FailureAction.MASK)

    def check(self, trajectories: Iterable[Trajectory]) -> None:
        """Stop the run when too much of a batch failed.

        Raises:
            TooManyFailures: With the three most frequent reasons.
        """
        episodes = list(trajectories)
        failed = [t for t in episodes if t.error is not None and t.reward is None]
        if not episodes or len(failed) / len(episodes) <= self.max_failure_rate:
            return
        reasons = Counter(_reason(t.error) for t in failed if t.error)
        frequent = "\n".join(f"  {count} x {reason}" for reason, count in reasons.most_common(3))
        raise TooManyFailures(
            f"{len(failed)} of {len(episodes)} episodes failed, more than rollout."
            f"max_failure_rate {self.max_failure_rate:g} allows; the most frequent reasons:\n"
            f"{frequent}"
        )


def _reason(error: EpisodeError) -> str:
    place = f" ({error.place})" if error.place else ""
    return f"{error.boundary}: {error.reason}{place}"
