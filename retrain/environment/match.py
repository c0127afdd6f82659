"""`Match`: one play of an environment of several agents, whose seats are ordinary environments.

A driver in a task of its own plays the rounds, in which each seat is told what it reads and asked
for its action. Nothing waits for ever: whatever ends the driver or a seat ends all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

from retrain.environment.casting import Casting
from retrain.environment.match_exchange import Exchange
from retrain.environment.match_rounds import Rounds
from retrain.environment.seat import LoneSeat, SeatEnvironment
from retrain.environment.several_agents import Outcome
from retrain.environment.several_agents_adapting import AdaptedAgents
from retrain.errors import EnvironmentFailure, RetrainError
from retrain.types import Action, StepResult, Task


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
        self._rounds = Rounds(environment, casting, agents, timeout)
        self._exchange = Exchange()
        self._context = copy_context()
        self._driver: asyncio.Task[None] | None = None
        self._outcomes: Mapping[str, Outcome] = {}
        self._result: StepResult | None = None
        self._failure: RetrainError | None = None

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
            said = await self._exchange.told(agent)
            if said is not None and not self.over:
                return said
        moved, earned = self._rounds.earned.get(agent, Outcome()), await self.outcome(agent)
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
            await self._exchange.end(agent)
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
            await self._rounds.close()
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
            result = await self._rounds.play(task, seed, self._exchange.ask)
            self._outcomes = await self._rounds.outcomes()
            await self._rounds.close()
            self._result = result
            self._exchange.wake()
        except RetrainError as failure:
            self._fail(failure)
        finally:
            self._fail(SeatLost("the match was broken off"))
            await self._rounds.close()

    def _answer(self, agent: str, action: Action | None) -> None:
        if not self.over:
            self._exchange.answer(agent, action)

    def _fail(self, failure: RetrainError) -> None:
        """End it for every seat with a failure; nothing where it is over."""
        if not self.over:
            self._failure = failure
            self._exchange.wake()

    def _ended(self) -> StepResult:
        """How it ended.

        Raises:
            RetrainError: By a failure.
        """
        if self._failure is not None:
            raise self._failure
        assert self._result is not None, "asked before the end"
        return self._result
