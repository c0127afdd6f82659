"""A reward beside the environment's own: it takes an episode and returns a number."""

from retrain.types import Trajectory


def heeds(trajectory: Trajectory) -> float:
    """The share of guesses that were still possible after what had been said."""
    possible = [turn.info.get("possible", False) for turn in trajectory.turns]
    return sum(possible) / len(possible)
