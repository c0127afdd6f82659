"""A world without end, in which agents take turns until somebody ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrain.environment.several_agents import MultiAgentEnvironment, Outcome
from retrain.types import Action, Message, Observation, Task

FIRST, SECOND, THIRD = "first", "second", "third"


class Endless(MultiAgentEnvironment):
    """Goes on without those who leave; at its end it pays each agent a point for each turn.

    Args:
        only_third_after: The number of moves after which nobody but the third one acts; None is
            never.
    """

    agents = (FIRST, SECOND, THIRD)

    def __init__(self, *, only_third_after: int | None = None) -> None:
        self._only_third_after = only_third_after
        self._there = list(self.agents)
        self._turns = dict.fromkeys(self.agents, 0)

    async def reset(self, task: Task, seed: int) -> None:
        pass

    async def acting(self) -> Sequence[str]:
        played = sum(self._turns.values())
        if self._only_third_after is not None and played >= self._only_third_after:
            return (THIRD,)
        return (min(self._there, key=lambda agent: self._turns[agent]),)

    async def observe(self, agent: str) -> Observation:
        return Observation((Message("user", f"Go on, {agent}."),))

    async def step(self, agent: str, action: Action) -> None:
        self._turns[agent] += 1

    async def leave(self, agent: str) -> bool:
        self._there.remove(agent)
        return True

    async def outcomes(self) -> Mapping[str, Outcome]:
        return {agent: Outcome(float(turns)) for agent, turns in self._turns.items()}
