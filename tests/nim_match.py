"""Nim for two: takes turns, keeps what each was told, and can be made to fail."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.environment.several_agents import MultiAgentEnvironment, Outcome
from retrain.types import Action, Message, Observation, Task

FIRST, SECOND = "first", "second"


class Nim(MultiAgentEnvironment):
    """Whoever takes the last stone wins 1, the other one loses 1; each stone earns a hundredth.

    Args:
        stones: On the pile; None draws them from the seed.
        forfeits: Whether one who leaves loses, so that the match is over and not cut.
        fails_at: The move, counted from 1, at which the environment raises.
    """

    agents = (FIRST, SECOND)
    opened = 0
    closed = 0

    def __init__(
        self, *, stones: int | None = None, forfeits: bool = False, fails_at: int | None = None
    ) -> None:
        self._stones = stones
        self._forfeits = forfeits
        self._fails_at = fails_at
        self._moves: list[str] = []
        self._winner: str | None = None
        self._heard = dict.fromkeys(self.agents, 0)
        type(self).opened += 1

    async def reset(self, task: Task, seed: int) -> None:
        self._task = task
        self.pile = self._stones or 8 + random.Random(seed).randrange(4)

    async def acting(self) -> Sequence[str]:
        return () if self._winner else (self.agents[len(self._moves) % 2],)

    async def observe(self, agent: str) -> Observation:
        new = self._moves[self._heard[agent] :]
        told = [Message("user", f"{move} {self.pile} are left.") for move in new[-1:]]
        if not self._heard[agent] and len(self._moves) < 2:
            said = f"You play {agent}. {self.pile} stones." + "".join(f" {m}" for m in new)
            return Observation((*self._task.messages, Message("user", said)))
        return Observation(tuple(told))

    async def step(self, agent: str, action: Action) -> Outcome:
        if self._fails_at == len(self._moves) + 1:
            raise ValueError("the table broke")
        wish = re.search(r"\d+", action.text)
        taken = min(max(int(wish[0]) if wish else 1, 1), 3, self.pile)
        self.pile -= taken
        self._moves.append(f"{agent} takes {taken}.")
        self._heard[agent] = len(self._moves)
        if not self.pile:
            self._winner = agent
        return Outcome(taken / 100, {"taken": taken})

    async def leave(self, agent: str) -> bool:
        if self._forfeits:
            self._winner = next(other for other in self.agents if other != agent)
        return self._forfeits

    async def outcomes(self) -> Mapping[str, Outcome]:
        if self._winner is None:
            return {}
        return {
            agent: Outcome(won * 2.0 - 1, {"success": won})
            for agent in self.agents
            for won in [agent == self._winner]
        }

    async def close(self) -> None:
        type(self).closed += 1


class Broken(Nim):
    """Cannot be made, and so cannot be asked for its agents."""

    agents = property(lambda self: (FIRST, SECOND))  # type: ignore[assignment]

    def __init__(self) -> None:
        raise ValueError("no table")


class NimOfFour(Nim):
    """Nim with two more, who never act."""

    agents = (FIRST, SECOND, "third", "fourth")


class TakesOne:
    """A player that counts how often it is made and closed.

    Args:
        broken: Whether it cannot be made.
    """

    made = 0
    closed = 0

    def __init__(self, *, broken: bool = False) -> None:
        if broken:
            raise ValueError("no chair")
        type(self).made += 1

    def __call__(self, messages: list[dict[str, Any]]) -> str:
        return takes_one(messages)

    def close(self) -> None:
        type(self).closed += 1


def takes_one(messages: list[dict[str, Any]]) -> str:
    """A player that always takes a single stone."""
    return "take 1"
