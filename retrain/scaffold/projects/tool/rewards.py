"""A reward beside the environment's own: it takes an episode and returns a number."""

from retrain.types import Trajectory


def brief(trajectory: Trajectory) -> float:
    """1 for an episode of at most two turns, 0 for a longer one."""
    return float(len(trajectory.turns) <= 2)
