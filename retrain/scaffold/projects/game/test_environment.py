"""pytest: the promises that an environment and a reward make to every backend."""

from environment import GuessNumber
from rewards import heeds

from retrain.testing import EnvironmentSuite, RewardSuite


class TestGuessNumber(EnvironmentSuite):
    """The environment."""

    answer = "5"

    def make_environment(self) -> GuessNumber:
        """Make one for an episode."""
        return GuessNumber()


class TestHeeds(RewardSuite):
    """The reward."""

    def make_reward(self) -> object:
        """Give the function."""
        return heeds
