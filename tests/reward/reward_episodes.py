"""Makes episodes to score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.errors import Boundary, EpisodeError
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Segment,
    StopReason,
    Task,
    Trajectory,
    Turn,
)


def _turn(action: Action | str, reward: float) -> Turn:
    action = Action(action) if isinstance(action, str) else action
    return Turn((1, 2), (-0.5, -0.1), FinishReason.STOP, action, reward=reward)


def make_episode(
    *actions: Action | str,
    label: Any = None,
    rewards: Sequence[float] = (),
    status: Status = Status.COMPLETED,
) -> Trajectory:
    """Make an episode of the given actions (or texts), with the label and turn rewards."""
    given = [*rewards, *[0.0] * (len(actions) - len(rewards))]
    turns = tuple(_turn(a, r) for a, r in zip(actions, given, strict=True))
    failed = status is Status.FAILED
    return Trajectory(
        task=Task("t", "Go.", label=label),
        seed=EpisodeSeed(0, "train", "t", 0, 0),
        segments=(Segment((1,), turns),) if turns else (),
        status=status,
        stop_reason=StopReason.FAILED if failed else StopReason.TERMINATED,
        error=EpisodeError(Boundary.TOOL, "tool x: gone") if failed else None,
    )
