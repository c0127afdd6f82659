"""`RewardBridge`: scores episodes once and computes their advantages by explicit group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrain.errors import DataError, EpisodeError
from retrain.reward.advantages import by_agent, group_advantages
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import Scored
from retrain.reward.normalisation import Moments, read_moments
from retrain.reward.shaping import Shaped, Values
from retrain.types import Group, Scoring, Task, Trajectory


class RewardBridge:
    """Puts raw rewards on trajectories, and advantages on groups.

    Advantages are computed from `Trajectory.trained_reward`: the raw reward, or what normalisation
    makes of it. Where that is `running`, the bridge keeps what it has seen (`state_dict`).
    """

    def __init__(
        self, calculator: RewardCalculator, advantage: str = "grpo", *, by_agent: bool = True
    ) -> None:
        """Make a bridge.

        Args:
            calculator: Scores trajectories.
            advantage: Name of the advantage: grpo, dr_grpo, rloo or gspo.
            by_agent: Whether an episode is compared with those of its own agent alone.
        """
        self.calculator = calculator
        self.advantage = advantage
        self.by_agent = by_agent
        self._moments: dict[str, Moments] = {}

    async def score(self, trajectories: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
        """Put the raw reward and its components on each trajectory.

        A trajectory whose reward a policy dropped comes back with `reward=None` and the error; it
        is not valid, so nothing of it is trained and it leaves its group's statistics.
        """
        scores = await self.calculator.score(trajectories)
        pairs = zip(trajectories, scores, strict=True)
        return tuple(_scored(trajectory, score) for trajectory, score in pairs)

    async def group(
        self, index: int, task: Task, visit: int, trajectories: Sequence[Trajectory]
    ) -> Group:
        """Score the G episodes of one group and compute their advantages.

        With `normalisation: running`, by what was seen up to here; see `settle`.
        """
        scored = await self.score(trajectories)
        return self.advantages(Group(index, task, visit, scored))

    def advantages(self, group: Group) -> Group:
        """Normalise the rewards of a scored group, and compute its advantages anew."""
        trajectories = self._shaped(group.trajectories)
        rewards = [t.trained_reward if t.valid else None for t in trajectories]
        advantages = group_advantages(self.advantage, rewards, self._agents(trajectories))
        return replace(group, trajectories=trajectories, advantages=advantages)

    def settle(self, groups: Sequence[Group]) -> list[Group]:
        """Take a batch into the running statistics, and normalise it by them, itself included.

        To be called once for each batch that is trained on, with all its groups in an order that a
        repetition would have too. Without `normalisation: running` the groups stay as they are.

        Args:
            groups: The groups of the batch, scored.

        Returns:
            The groups with their advantages.
        """
        if not self.running:
            return list(groups)
        self.learn([[t.rewards for t in group.trajectories if t.valid] for group in groups])
        return [self.advantages(group) for group in groups]

    def learn(self, groups: Sequence[Sequence[Values]]) -> None:
        """Take a batch into the running statistics: the raw values of valid episodes, by group."""
        self.calculator.shaping.learn(groups, self._moments)

    def shape(self, rows: Sequence[Values], agents: Sequence[Hashable] = ()) -> list[Shaped]:
        """What the valid episodes of one group are trained on, from their raw values.

        Args:
            rows: The raw values of each.
            agents: Whose episode each is, where those of one agent are alone compared.
        """
        found: dict[int, Shaped] = {}
        for slots in by_agent(agents or [None] * len(rows)):
            shaped = self.calculator.shaping.group([rows[slot] for slot in slots], self._moments)
            found |= zip(slots, shaped, strict=True)
        return [found[slot] for slot in range(len(rows))]

    @property
    def shapes(self) -> bool:
        """Whether what is trained on can be another number than the raw reward."""
        return self.calculator.shaping.changes

    @property
    def running(self) -> bool:
        """Whether running statistics are kept, so that batches must be settled."""
        return bool(self.calculator.shaping.running)

    def state_dict(self) -> dict[str, Any]:
        """The running statistics, as JSON values."""
        return {"moments": {name: kept.state_dict() for name, kept in self._moments.items()}}

    def forget(self) -> None:
        """Begin the running statistics anew."""
        self._moments = {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; what is kept of components that are gone is forgotten.

        Raises:
            DataError: It is damaged.
        """
        kept = state.get("moments")
        if not isinstance(kept, Mapping):
            raise DataError("reward state: is damaged (no moments)")
        running = self.calculator.shaping.running
        self._moments = {n: m for n, m in read_moments(kept).items() if n in running}

    def _shaped(self, trajectories: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
        """The episodes of one group with what they are trained on, where that is another number.

        One that cannot be normalised loses its reward, as where a component is dropped.
        """
        if not self.shapes:
            return tuple(trajectories)
        valid = [trajectory for trajectory in trajectories if trajectory.valid]
        shaped = self.shape([t.rewards for t in valid], self._agents(valid))
        found = iter(map(_shaped, valid, shaped))
        return tuple(next(found) if t.valid else t for t in trajectories)

    def _agents(self, trajectories: Sequence[Trajectory]) -> list[str | None]:
        """Whose episode each is, where that parts the group."""
        return [episode.agent for episode in trajectories] if self.by_agent else []


def _scored(trajectory: Trajectory, score: Scored) -> Trajectory:
    return replace(
        trajectory,
        rewards=score.components,
        reward=score.total,
        error=trajectory.error or score.error,
        scoring=score.scoring,
        witness=None,
    )


def _shaped(trajectory: Trajectory, shaped: Shaped) -> Trajectory:
    scoring = replace(
        trajectory.scoring or Scoring(), trained=shaped.trained, normalised=shaped.normalised
    )
    if shaped.failure is None:
        return replace(trajectory, scoring=scoring)
    error = EpisodeError.of(shaped.failure)
    return replace(trajectory, scoring=scoring, reward=None, error=trajectory.error or error)
