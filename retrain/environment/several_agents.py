"""`MultiAgentEnvironment`: one world, several agents, each of which is an episode of its own."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retrain.environment.base import ToolSchema
from retrain.types import Action, Observation, Task


class Outcome(NamedTuple):
    """What an agent earns by a move, or by the whole match.

    Attributes:
        reward: Added to the reward of its turn; of the match's outcome, to that of its last turn.
        info: JSON values for the turn's `info`; `success` is read as in any environment.
    """

    reward: float = 0.0
    info: Mapping[str, Any] = {}


class MultiAgentEnvironment(ABC):
    """One match between several agents. retrain makes a new one for every match, and closes it.

    The calls of a match come one after the other, never two at once: `reset`, then `acting`,
    `observe` and `step` until nobody acts any more, then `outcomes` and `close`. The methods may be
    synchronous; they run in a thread then, and the class need not derive from this one.

    Who plays an agent is not the environment's business: each one that is trained is an episode
    with its own token stream; `environment.agents` of the configuration names who plays the others.
    """

    @property
    @abstractmethod
    def agents(self) -> Sequence[str]:
        """The names of all agents, in order; they follow from the constructor's arguments."""

    def tools_of(self, agent: str) -> Sequence[ToolSchema]:
        """The tools that an agent may call, as JSON schemas; read after `reset`."""
        return ()

    @property
    def world(self) -> Any:
        """What reward functions that take `environments` are given."""
        return self

    @abstractmethod
    async def reset(self, task: Task, seed: int) -> None:
        """Begin a match.

        Args:
            task: What this match is about.
            seed: Seeds everything random in the world; the same for all matches of a group.
        """

    @abstractmethod
    async def acting(self) -> Sequence[str]:
        """Who acts next.

        Several act without seeing what the others do; `step` is then called for each, in the order
        of `agents`, whoever was done first. Nobody: the match is over.
        """

    @abstractmethod
    async def observe(self, agent: str) -> Observation:
        """What an agent that acts next is told: what is new since its last move.

        The first time it is the agent's whole first prompt. Its own moves are not repeated.
        """

    @abstractmethod
    async def step(self, agent: str, action: Action) -> Outcome | None:
        """Make an agent's move.

        Args:
            agent: Who acts.
            action: What it did. `action.parse_error` says when a tool call could not be read.

        Returns:
            What the move earns that agent; None is nothing.
        """

    async def leave(self, agent: str) -> bool:
        """Take note that an agent plays no more: a limit on its turns or tokens has cut it.

        Returns:
            True where the match goes on without it, or ends as a forfeit: it must not act again.
            False, as here, cuts the match for everybody.
        """
        return False

    async def outcomes(self) -> Mapping[str, Outcome | float]:
        """What the whole match earns each agent on top of its moves; nothing unless overridden.

        Asked once, when the match is over or cut; not after a failure or an abort.
        """
        return {}

    async def close(self) -> None:  # noqa: B027 - optional to override
        """Free what the match held; called exactly once, also after a failure."""


def has_agents(constructor: Any) -> bool:
    """Whether a class is one of several agents, by its base class or by its methods."""
    if not inspect.isclass(constructor):
        return False
    named = all(callable(getattr(constructor, name, None)) for name in ("acting", "observe"))
    return named or issubclass(constructor, MultiAgentEnvironment)
