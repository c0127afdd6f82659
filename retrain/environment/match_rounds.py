"""`Rounds`: the environment's side of a match, from its first round to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from retrain.environment.casting import Casting
from retrain.environment.players import Player
from retrain.environment.several_agents import Outcome
from retrain.environment.several_agents_adapting import AdaptedAgents
from retrain.errors import EnvironmentFailure, boundary
from retrain.types import Action, Observation, StepResult, Task

T = TypeVar("T")

Ask = Callable[[str, StepResult], "asyncio.Future[Action | None]"]
"""Tells a seat something, and asks what it does; None: it leaves."""

ALONE = 10_000
"""Rounds in a row without a turn of any seat, after which the environment is at fault."""


class Rounds:
    """Asks the environment who acts, lets each of them act, and makes their moves.

    Attributes:
        environment: The environment.
        earned: By agent, what its last move earned, until it is told.
    """

    def __init__(
        self,
        environment: AdaptedAgents,
        casting: Casting,
        seats: Collection[str],
        timeout: float | None,
    ) -> None:
        """Take an environment that has not been reset.

        Args:
            environment: The environment.
            casting: Who plays whom.
            seats: The agents that are asked; players play the others.
            timeout: Seconds that one call of the environment or of a player may take.
        """
        self.environment = environment
        self.earned: dict[str, Outcome] = {}
        self._casting = casting
        self._seats = frozenset(seats)
        self._timeout = timeout
        self._players: dict[str, Player] = {}
        self._closed = False

    async def play(self, task: Task, seed: int, ask: Ask) -> StepResult:
        """Play until nobody acts any more, or no seat is left.

        Args:
            task: What the match is about.
            seed: Seeds the environment and the players.
            ask: Asks a seat.

        Returns:
            An empty one that says whether the match is over (`terminated`) or cut (`truncated`).

        Raises:
            EnvironmentFailure: The environment or a player raised, took too long, or lets players
                alone act for ever.
        """
        environment, gone, alone = self.environment, set[str](), 0
        await self._begin(task, seed)
        while acting := await self._within("acting", environment.acting()):
            if barred := gone.intersection(acting):
                raise EnvironmentFailure(f"acting named {min(barred)!r}, which has left the match")
            if gone == self._seats:
                return _cut()
            alone = 0 if self._seats.intersection(acting) else alone + 1
            if alone > ALONE:
                raise EnvironmentFailure(_endless(acting))
            actions = await self._actions(acting, ask)
            for agent, action in actions.items():
                if action is not None:
                    await self._step(agent, action)
                    continue
                gone.add(agent)
                if not await self._within("leave", environment.leave(agent)):
                    return _cut()
        return StepResult(Observation(), terminated=True)

    async def outcomes(self) -> Mapping[str, Outcome]:
        """What the whole match earns each agent.

        Raises:
            EnvironmentFailure: The environment raised, or took too long.
        """
        return await self._within("outcomes", self.environment.outcomes())

    async def close(self) -> None:
        """Close the environment and the players, once.

        Raises:
            EnvironmentFailure: The environment could not be closed.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for player in self._players.values():
                with suppress(EnvironmentFailure):
                    await self._within("close", player.close())
        finally:
            await self._within("close", self.environment.close())

    async def _begin(self, task: Task, seed: int) -> None:
        async with boundary(EnvironmentFailure, "players"):
            for agent, make in self._casting.players.items():
                self._players[agent] = make(agent, seed)
        await self._within("reset", self.environment.reset(task, seed))

    async def _actions(self, acting: Sequence[str], ask: Ask) -> dict[str, Action | None]:
        """What those who act do, in order; None where one has left."""
        told = {a: await self._within("observe", self.environment.observe(a)) for a in acting}
        asked: dict[str, asyncio.Future[Action | None]] = {}
        for agent in acting:
            if agent not in self._players:
                earned = self.earned.pop(agent, Outcome())
                now = StepResult(told[agent], earned.reward, info=earned.info)
                asked[agent] = ask(agent, now)
        found: dict[str, Action | None] = {}
        for agent in acting:
            if agent in asked:
                found[agent] = await asked[agent]
            else:
                act = self._players[agent].act(told[agent])
                found[agent] = await self._within(f"agent {agent!r}", act)
        return found

    async def _step(self, agent: str, action: Action) -> None:
        move = self.environment.step(agent, action)
        self.earned[agent] = await self._within(f"step of {agent!r}", move)

    async def _within(self, what: str, call: Awaitable[T]) -> T:
        async with boundary(EnvironmentFailure, what, timeout=self._timeout):
            return await call


def _cut() -> StepResult:
    return StepResult(Observation(), truncated=True)


def _endless(acting: Sequence[str]) -> str:
    return (
        f"acting named players alone ({', '.join(acting)} and so on) for {ALONE} rounds in a row; "
        "an agent that the model plays must act again, or acting must name nobody to end the match"
    )
