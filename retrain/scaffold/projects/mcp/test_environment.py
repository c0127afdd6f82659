"""pytest: the promises that an environment and a reward make to every backend.

The server runs in this process here, which is faster than one process for each test.
"""

from typing import Any

from rewards import brief

from retrain.environment import make_environment_factory
from retrain.testing import EnvironmentSuite, RewardSuite

SERVERS = {"sums": {"module": "server:mcp"}}
FACTORY = make_environment_factory("mcp", {"servers": SERVERS, "check_answer": "number"})


class TestServer(EnvironmentSuite):
    """The server, as an environment."""

    def make_environment(self) -> Any:
        """Make one for an episode."""
        return FACTORY()


class TestBrief(RewardSuite):
    """The reward."""

    def make_reward(self) -> object:
        """Give the function."""
        return brief
