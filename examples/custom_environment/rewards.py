"""A reward function of one's own: takes an episode, returns a number."""

from retrain.types import Trajectory


def quick(trajectory: Trajectory) -> float:
    """1 for a number found with the first guess, 1/2 with the second, …; 0 for one not found."""
    found = trajectory.turns[-1].info.get("success", False)
    return float(found) / len(trajectory.turns)
