"""`Match`: one play of an environment of several agents, whose seats are ordinary environments.

A driver in a task of its own asks the environment who acts, tells each seat what it reads, and
waits for its action. Nothing waits for ever: whatever ends the driver or a seat ends all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from retrain.environment.casting import Casting
from retrain.environment.players import Player
from retrain.environment.seat import LoneSeat, SeatEnvironment
from retrain.environment.several_agents import Outcome
from retrain.environment.several_agents_adapting import AdaptedAgents
from retrain.errors import EnvironmentFailure, RetrainError, boundary
from retrain.types import Action, Observation, StepResult, Task

T = TypeVar("T")


class SeatLost(EnvironmentFailure):
    """Another seat of the match failed or was aborted, so the match cannot go on."""


class Match:
    """Plays one match.

    Attributes:
        environment: The environment.
        casting: Who plays whom.
        seats: By agent, what its episode plays in.
        lost: The seat that broke the match off; None where none did.
    """

    def __init__(
        self,
        environment: AdaptedAgents,
        casting: Casting,
        *,
        timeout: float | None = None,
        alone: bool = False,
    ) -> None:
        """Make a match that has not begun.

        Args:
            environment: The environment; the match closes it.
            casting: Who plays whom.
            timeout: Seconds that one call of the environment or of a player may take; None is no
                bound: the episode of a single seat has one of its own.
            alone: Whether a single seat is taken, however many there are.
        """
        kind = LoneSeat if alone and casting.together else SeatEnvironment
        agents = casting.seats[:1] if alone else casting.seats
        self.environment = environment
        self.casting = casting
        self.seats = {agent: kind(self, agent) for agent in agents}
        self.lost: str | None = None
        self._timeout = timeout
        self._context = copy_context()
        self._driver: asyncio.Task[None] | None = None
        self._players: dict[str, Player] = {}
        self._told: dict[str, asyncio.Future[StepResult | None]] = {}
        self._asked: dict[str, asyncio.Future[Action | None]] = {}
        self._moved: dict[str, Outcome] = {}
        self._outcomes: Mapping[str, Outcome] = {}
        self._result: StepResult | None = None
        self._failure: RetrainError | None = None
        self._closed = False

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._result is not None or self._failure is not None

    def begin(self, task: Task, seed: int) -> None:
        """Begin it, unless another seat has: all play the same task with the same seed."""
        if self._driver is None and not self.over:
            drive = self._drive(task, seed)
            name = f"match of task {task.id!r}"
            self._driver = asyncio.create_task(drive, name=name, context=self._context)

    async def told(self, agent: str) -> StepResult:
        """Wait until an agent is to act; what it reads, and what its last move earned.

        Returns:
            That, or how the match ended.

        Raises:
            RetrainError: The match failed, or lost another seat.
        """
        if not self.over:
            told = self._told.setdefault(agent, _future())
            await asyncio.wait([told])
            self._told.pop(agent, None)
            if (said := told.result()) is not None and not self.over:
                return said
        moved, earned = self._moved.get(agent, Outcome()), await self.outcome(agent)
        return self._ended()._replace(reward=moved.reward, info={**moved.info, **earned.info})

    def act(self, agent: str, action: Action) -> None:
        """Make an agent's move; one that comes too late is lost."""
        self._answer(agent, action)

    def leave(self, agent: str) -> None:
        """Say that an agent, which is to act, acts no more; nothing once the match is over."""
        self._answer(agent, None)

    async def outcome(self, agent: str) -> Outcome:
        """Wait for the end of the match, and give what it earns an agent.

        Raises:
            RetrainError: The match failed, or lost another seat.
        """
        if not self.over:
            await asyncio.wait([self._told.setdefault(agent, _future())])
        self._ended()
        return self._outcomes.get(agent, Outcome())

    def info(self, agent: str) -> Mapping[str, Any]:
        """What the end of the match says of an agent; nothing before it."""
        return self._outcomes.get(agent, Outcome()).info

    def break_off(self, agent: str, why: str) -> None:
        """End the match for all, as a seat failed or was aborted; nothing once it is over.

        Args:
            agent: Whose seat.
            why: What happened to it.
        """
        if not self.over:
            self.lost = agent
            self._fail(SeatLost(f"the match ended with agent {agent!r}, which {why}"))
            if self._driver is not None:
                self._driver.cancel()

    async def shut(self) -> None:
        """End what is left of it, and close the environment if that is not done; more than once.

        Raises:
            EnvironmentFailure: The environment could not be closed.
        """
        self._fail(SeatLost("the match was broken off"))
        driver = self._driver
        if driver is None:
            await self._close()
        elif not driver.done():
            driver.cancel()
            try:
                await asyncio.wait([driver])
            except asyncio.CancelledError:
                driver.cancel()
                raise
        if driver is not None and not driver.cancelled() and (failure := driver.exception()):
            raise failure

    async def _drive(self, task: Task, seed: int) -> None:
        """Play it to its end.

        Raises:
            EnvironmentFailure: The environment could not be closed after a failure.
        """
        try:
            result = await self._play(task, seed)
            self._outcomes = await self._within("outcomes", self.environment.outcomes())
            await self._close()
            self._result = result
            self._wake()
        except RetrainError as failure:
            self._fail(failure)
        finally:
            self._fail(SeatLost("the match was broken off"))
            await self._close()

    async def _play(self, task: Task, seed: int) -> StepResult:
        environment, gone = self.environment, set[str]()
        players = self.casting.players.items()
        async with boundary(EnvironmentFailure, "players"):
            for agent, make in players:
                self._players[agent] = make(agent, seed)
        await self._within("reset", environment.reset(task, seed))
        while acting := await self._within("acting", environment.acting()):
            if barred := gone.intersection(acting):
                raise EnvironmentFailure(f"acting named {min(barred)!r}, which has left the match")
            actions = await self._actions(acting)
            for agent, action in actions.items():
                if action is not None:
                    move = environment.step(agent, action)
                    self._moved[agent] = await self._within(f"step of {agent!r}", move)
                    continue
                gone.add(agent)
                if not await self._within("leave", environment.leave(agent)):
                    return StepResult(Observation(), truncated=True)
        return StepResult(Observation(), terminated=True)

    async def _actions(self, acting: Sequence[str]) -> dict[str, Action | None]:
        """What those who act do, in order; None where one has left."""
        told = {a: await self._within("observe", self.environment.observe(a)) for a in acting}
        for agent in self._taken(acting):
            self._asked[agent] = _future()
            moved = self._moved.pop(agent, Outcome())
            told_now = StepResult(told[agent], moved.reward, info=moved.info)
            self._told.setdefault(agent, _future()).set_result(told_now)
        found: dict[str, Action | None] = {}
        for agent in acting:
            if agent in self._players:
                act = self._players[agent].act(told[agent])
                found[agent] = await self._within(f"agent {agent!r}", act)
            else:
                found[agent] = await self._asked[agent]
        return found

    def _taken(self, acting: Sequence[str]) -> list[str]:
        return [agent for agent in acting if agent not in self._players]

    def _answer(self, agent: str, action: Action | None) -> None:
        asked = self._asked.get(agent)
        if asked is not None and not asked.done() and not self.over:
            asked.set_result(action)

    async def _within(self, what: str, call: Awaitable[T]) -> T:
        async with boundary(EnvironmentFailure, what, timeout=self._timeout):
            return await call

    def _fail(self, failure: RetrainError) -> None:
        """End it for every seat with a failure; nothing where it is over."""
        if not self.over:
            self._failure = failure
            self._wake()

    def _wake(self) -> None:
        """Let every seat that waits see that the match is over."""
        for told in self._told.values():
            if not told.done():
                told.set_result(None)

    def _ended(self) -> StepResult:
        """How it ended.

        Raises:
            RetrainError: By a failure.
        """
        if self._failure is not None:
            raise self._failure
        assert self._result is not None, "asked before the end"
        return self._result

    async def _close(self) -> None:
        """Close the environment and the players, once."""
        if self._closed:
            return
        self._closed = True
        try:
            for player in self._players.values():
                with suppress(EnvironmentFailure):
                    await self._within("close", player.close())
        finally:
            await self._within("close", self.environment.close())


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
