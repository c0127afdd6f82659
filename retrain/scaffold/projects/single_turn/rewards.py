"""The reward: it takes an episode and returns a number."""

from retrain.types import Trajectory


def is_larger(trajectory: Trajectory) -> float:
    """1 where the answer is the label: the larger of the two numbers in the question."""
    return float(trajectory.response_text.strip() == trajectory.task.label)
