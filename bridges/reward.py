"""`RewardBridge`: scores episodes once and computes their advantages by explicit group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retrain.reward.advantages import group_advantages
from retrain.reward.calculator import RewardCalculator
from retrain.types import Group, Task, Trajectory


class RewardBridge:
    """Puts raw rewards on trajectories, and advantages on groups."""

    def __init__(self, calculator: RewardCalculator, advantage: str = "grpo") -> None:
        """Make a bridge.

        Args:
            calculator: Scores trajectories.
            advantage: Name of the advantage: grpo, dr_grpo, rloo or gspo.
        """
        self.calculator = calculator
        self.advantage = advantage

    async def score(self, trajectories: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
        """Put the reward and its components on each trajectory.

        A trajectory whose reward a policy dropped comes back with `reward=None` and the error; it
        is not valid, so nothing of it is trained and it leaves its group's statistics.
        """
        scores = await self.calculator.score(trajectories)
        return tuple(
            replace(
                trajectory,
                rewards=score.components,
                reward=score.total,
                error=trajectory.error or score.error,
                witness=None,
            )
            for trajectory, score in zip(trajectories, scores, strict=True)
        )

    async def group(
        self, index: int, task: Task, visit: int, trajectories: Sequence[Trajectory]
    ) -> Group:
        """Score the G episodes of one group and compute their advantages."""
        scored = await self.score(trajectories)
        rewards = [trajectory.reward if trajectory.valid else None for trajectory in scored]
        return Group(index, task, visit, scored, group_advantages(self.advantage, rewards))
