"""pytest: the promises that an environment and a reward make to every backend."""

from environment import Reception
from rewards import brief

from retrain.testing import EnvironmentSuite, RewardSuite
from retrain.types import Task


class TestReception(EnvironmentSuite):
    """The environment."""

    task = Task("ada", "Where is Ada?", metadata={"who": "Ada"})
    other_task = Task("alan", "Where is Alan?", metadata={"who": "Alan"})

    def make_environment(self) -> Reception:
        """Make one for an episode."""
        return Reception()


class TestBrief(RewardSuite):
    """The reward."""

    def make_reward(self) -> object:
        """Give the function."""
        return brief
