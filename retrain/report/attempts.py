"""Whether an episode solved its task, for success and pass@k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from retrain.sample import Status
from retrain.types import Group, Trajectory

FINISHED = (Status.COMPLETED, Status.TRUNCATED)
"""The episodes that say something about the policy; the others failed or were aborted."""

SUCCESS_REWARD = 1.0
"""Where the environment reports no success, an episode of this reward or more is one."""


def stands_in(trajectory: Trajectory) -> bool:
    """Whether it is of a `policy` player: the model as an opponent of what is trained."""
    return trajectory.masked and trajectory.agent is not None


def success_of(trajectory: Trajectory) -> float | None:
    """What the environment said about success in the last turn; None where it gave no number."""
    if not trajectory.turns:
        return None
    try:
        success = float(trajectory.turns[-1].info["success"])
    except (KeyError, TypeError, ValueError):
        return None
    return success if math.isfinite(success) else None


def reports_success(episodes: Iterable[Trajectory]) -> bool:
    """Whether the environment reports success at all."""
    return any(e.status in FINISHED and success_of(e) is not None for e in episodes)


def solved(
    trajectory: Trajectory, *, reported: bool, threshold: float = SUCCESS_REWARD
) -> bool | None:
    """Whether an episode solved its task.

    What the environment reports in `info["success"]` decides: above 0.5 is solved. An episode that
    a limit cut short before the report is not solved where other episodes report. Everywhere else
    the reward decides.

    Args:
        trajectory: The episode.
        reported: Whether the environment reports success at all (`reports_success`).
        threshold: The least reward of a solved task.

    Returns:
        None where nobody can tell: it failed, was aborted, or its reward is not known.
    """
    if trajectory.status not in FINISHED:
        return None
    success = success_of(trajectory)
    if success is not None:
        return success > 0.5
    if reported and trajectory.status is Status.TRUNCATED:
        return False
    return None if trajectory.reward is None else trajectory.reward >= threshold


def attempts_by_task(
    groups: Sequence[Group], *, threshold: float = SUCCESS_REWARD
) -> list[tuple[bool, ...]]:
    """[groups][attempts] whether each attempt solved its task.

    Attempts that cannot say are out, and those of `policy` players.
    """
    reported = reports_success(t for group in groups for t in group.trajectories)
    return [
        tuple(
            verdict
            for trajectory in group.trajectories
            if not stands_in(trajectory)
            and (verdict := solved(trajectory, reported=reported, threshold=threshold)) is not None
        )
        for group in groups
    ]
