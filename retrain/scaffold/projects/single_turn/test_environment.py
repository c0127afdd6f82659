"""pytest: the promises that an environment and a reward make to every backend."""

from environment import Question
from rewards import is_larger

from retrain.testing import EnvironmentSuite, RewardSuite


class TestQuestion(EnvironmentSuite):
    """The environment."""

    def make_environment(self) -> Question:
        """Make one for an episode."""
        return Question()


class TestIsLarger(RewardSuite):
    """The reward."""

    right, wrong = "4", "5"

    def make_reward(self) -> object:
        """Give the function."""
        return is_larger
