"""Rewards with one fault each; run by test_kit_catches.py, and not collected otherwise."""

from __future__ import annotations

import random
import time
from typing import Any

from retrain.testing import RewardSuite


class TestRight(RewardSuite):
    right, wrong, needs_label = "It is 4.", "It is 5.", True

    def make_reward(self) -> Any:
        def reward(trajectory: Any) -> float:
            return float(trajectory.task.label.strip() in trajectory.response_text)

        return reward


class TestNotANumber(RewardSuite):
    def make_reward(self) -> Any:
        def reward(trajectory: Any) -> float:
            return float("nan") if trajectory.response_text == "" else 1.0

        return reward


class TestRaisesOnNonsense(RewardSuite):
    def make_reward(self) -> Any:
        return lambda trajectory: float(len(trajectory.response_text.split()[0]))


class TestReturnsText(RewardSuite):
    def make_reward(self) -> Any:
        return lambda trajectory: "1.0"


class TestDependsOnOrder(RewardSuite):
    """Batched, and answers in the order of lengths rather than of episodes."""

    def make_reward(self) -> Any:
        def reward(trajectories: Any) -> list[float]:
            return sorted(float(len(t.response_text)) for t in trajectories)

        return reward


class TestRemembers(RewardSuite):
    """Rewards what is new."""

    def make_reward(self) -> Any:
        seen: set[str] = set()

        def reward(trajectory: Any) -> float:
            text = trajectory.response_text
            new = text not in seen
            seen.add(text)
            return float(new)

        return reward


class TestNormalisesOverTheBatch(RewardSuite):
    def make_reward(self) -> Any:
        def reward(trajectories: Any) -> list[float]:
            values = [float(len(t.response_text)) for t in trajectories]
            mean = sum(values) / len(values)
            return [value - mean for value in values]

        return reward


class TestRandom(RewardSuite):
    def make_reward(self) -> Any:
        return lambda trajectory: random.random()


class TestWrongWayRound(RewardSuite):
    right, wrong = "It is 4.", "It is 5."

    def make_reward(self) -> Any:
        return lambda trajectory: float("4" not in trajectory.response_text)


class TestZeroWithoutALabel(RewardSuite):
    needs_label = True

    def make_reward(self) -> Any:
        return lambda trajectory: float(str(trajectory.task.label) in trajectory.response_text)


class TestBlocksTheLoop(RewardSuite):
    longest_block = 0.1

    def make_reward(self) -> Any:
        async def reward(trajectory: Any) -> float:
            if trajectory.response_text == "":
                time.sleep(0.4)
            return 1.0

        return reward


class TestOneForAll(RewardSuite):
    """Batched, and gives one number for the whole batch."""

    def make_reward(self) -> Any:
        return lambda trajectories: [1.0]
