"""`Casting`: which agents of an environment are trained, and who plays the others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from retrain.environment.players import PlayerFactory, make_player_factory
from retrain.environment.several_agents import has_agents
from retrain.environment.several_agents_adapting import AdaptedAgents, checked_names
from retrain.errors import ConfigError, EnvironmentFailure, boundary, nearest
from retrain.runtime import EventLoopThread

SECTION = "environment.agents"
POLICY = "policy"
"""The player that is the trained model itself: its turns are masked, and train nothing."""


@dataclass(frozen=True, slots=True)
class Casting:
    """Who plays the agents of every match.

    Attributes:
        agents: All of them, in order.
        seats: Those that the trained model plays, in order: each is an episode of its own.
        masked: The seats that are not trained all the same.
        players: Makes who plays each of the others.
    """

    agents: tuple[str, ...]
    seats: tuple[str, ...]
    masked: frozenset[str] = frozenset()
    players: Mapping[str, PlayerFactory] = field(default_factory=dict)

    @property
    def together(self) -> bool:
        """Whether a match is more than one episode, and not just an environment's own affair."""
        return len(self.seats) > 1

    def against(self, answer: str, seat: str) -> Casting:
        """The same match with one seat alone, where all others always give one answer."""
        others = [agent for agent in self.agents if agent != seat]
        canned = PlayerFactory(_canned, {"answer": answer}, takes_seed=False)
        players = {**dict.fromkeys(others, canned), **self.players}
        return Casting(self.agents, (seat,), players=players)


def make_casting(
    constructor: Callable[..., Any],
    arguments: Mapping[str, Any],
    agents: Mapping[str, str | Mapping[str, Any]],
) -> Casting | None:
    """Say who plays whom.

    Args:
        constructor: As `environment.type` names it.
        arguments: Its arguments, checked.
        agents: `environment.agents`: the agents that are not trained, and who plays them.

    Returns:
        None where it is an environment of one agent.

    Raises:
        ConfigError: An agent that there is not, a player that there is not, nobody is trained, or
            there are no agents to name.
    """
    if not has_agents(constructor):
        if agents:
            raise ConfigError(
                f"{SECTION}: the environment has one agent, the model, and names none; remove it"
            )
        return None
    known = _agents_of(constructor, arguments)
    for name in agents:
        if name not in known:
            raise ConfigError(f"{SECTION}.{name}: no such agent; {nearest(name, known)}")
    masked = frozenset(name for name, player in agents.items() if player == POLICY)
    seats = tuple(name for name in known if name not in agents or name in masked)
    if not set(seats) - masked:
        raise ConfigError(f"{SECTION}: somebody else plays every agent; leave one out to train it")
    players = {
        name: make_player_factory(player, f"{SECTION}.{name}")
        for name, player in agents.items()
        if name not in masked
    }
    return Casting(known, seats, masked, players)


def _canned(messages: object, *, answer: str) -> str:
    return answer


def _agents_of(constructor: Any, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The agents as the class names them; where its arguments name them, one is made to ask."""
    found = inspect.getattr_static(constructor, "agents", None)
    if found is not None and not isinstance(found, property):
        return checked_names(constructor.agents, constructor.__qualname__)
    with EventLoopThread() as loop:
        return loop.run(_ask(constructor, arguments))


async def _ask(constructor: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = AdaptedAgents(constructor(**arguments))
        await environment.close()
    except EnvironmentFailure as failure:
        raise ConfigError(f"environment.type: it cannot be asked for its agents: {failure}") from (
            failure
        )
    return environment.agents
