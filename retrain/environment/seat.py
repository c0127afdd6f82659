"""`SeatEnvironment`: what the episode of one agent sees of a match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from retrain.environment.base import Environment, ToolSchema
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.pausing import standing_still
from retrain.types import Action, Observation, StepResult, Task

if TYPE_CHECKING:
    from retrain.environment.match import Match


class NeverActed(EnvironmentFailure):
    """The match was over before an agent's first turn: it is aborted, as nothing went wrong."""


class SeatEnvironment(Environment):
    """One agent's side of a match; the match is closed with the last of its seats.

    Where there are other seats, the episode's deadlines stand still while it waits for them; the
    match bounds the environment's own calls.

    Attributes:
        closed: Whether its episode has ended.
    """

    def __init__(self, match: Match, agent: str) -> None:
        """Take a seat of a match that has not begun."""
        self._match = match
        self._agent = agent
        self._tools: Sequence[ToolSchema] = ()
        self.closed = False

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The agent's tools, as they were when it was last to act."""
        return self._tools

    @property
    def rewrites_history(self) -> bool:
        """What the environment of the match says."""
        return self._match.environment.rewrites_history

    @property
    def world(self) -> Any:
        """The world of the match, the same for all of its seats."""
        return self._match.environment.world

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """The agent's tools where no match is played."""
        return self._match.environment.tools_of(self._agent)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the match, if no other seat has, and wait for the agent's first turn.

        Raises:
            EnvironmentFailure: The match failed, or was over before it (`NeverActed`).
        """
        self._match.begin(task, seed)
        told = await self._next()
        if told.terminated or told.truncated:
            raise NeverActed(f"agent {self._agent!r}: the match was over before its first turn")
        return told.observation

    async def step(self, action: Action) -> StepResult:
        """Act, and wait for the agent's next turn or the end of the match.

        Raises:
            EnvironmentFailure: The match failed, or lost another seat.
        """
        self._match.act(self._agent, action)
        return await self._next()

    async def final_reward(self) -> float:
        """What the match earns the agent; one that a limit cut leaves the match.

        Raises:
            EnvironmentFailure: The match failed, or lost another seat.
        """
        self._match.leave(self._agent)
        async with self._patiently():
            return (await self._match.outcome(self._agent)).reward

    async def close(self) -> None:
        """Leave for good; the last one ends the match.

        Raises:
            EnvironmentFailure: The environment could not be closed.
        """
        self.closed = True
        if all(seat.closed for seat in self._match.seats.values()):
            await self._match.shut()

    async def _next(self) -> StepResult:
        async with self._patiently():
            told = await self._match.told(self._agent)
        if not (told.terminated or told.truncated):
            self._tools = tuple(self._match.environment.tools_of(self._agent))
        return told

    @asynccontextmanager
    async def _patiently(self) -> AsyncIterator[None]:
        """Let no deadline of the episode run while others are waited for."""
        if not self._match.casting.together:
            yield
            return
        async with standing_still():
            yield


class LoneSeat(SeatEnvironment):
    """A seat of a match that nobody else plays in: it tells its tools, and cannot be played."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """Refuse to play.

        Raises:
            ConfigError: Always.
        """
        seats = ", ".join(self._match.casting.seats)
        raise ConfigError(
            f"environment.type: its agents ({seats}) are episodes of one match, and this plays "
            "single episodes; name players for all but one under environment.agents"
        )
