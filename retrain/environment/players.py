"""Who plays the agents that are not trained: scripts, and models behind an address of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrain.environment.adapters.chat import as_chat
from retrain.environment.method_calls import MethodCalls
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.registry import Registry
from retrain.seeds import derive_seed
from retrain.signatures import check_config
from retrain.types import Action, Message, Observation

PLAYERS: Registry[Callable[..., Any]] = Registry("player", "retrain.players")
PLAYERS.add_lazy("chat", "retrain.environment.chat_player:ChatPlayer")


@dataclass(frozen=True, slots=True)
class PlayerFactory:
    """Makes the player of one agent for one match.

    Attributes:
        constructor: A class of players, or a function that is one.
        arguments: Keyword arguments, checked.
        takes_seed: Whether it is told a seed: one for each agent, the same for a whole group.
    """

    constructor: Callable[..., Any]
    arguments: Mapping[str, Any]
    takes_seed: bool

    def __call__(self, agent: str, seed: int) -> Player:
        """Make a player.

        Args:
            agent: Whom it plays.
            seed: The environment's seed.

        Raises:
            EnvironmentFailure: What it makes cannot be called.
        """
        seeded = {"seed": derive_seed("player", agent, seed)} if self.takes_seed else {}
        make, given = self.constructor, {**seeded, **self.arguments}
        answers = make(**given) if inspect.isclass(make) else partial(make, **given)
        if not callable(answers):
            raise EnvironmentFailure(f"agent {agent!r}: {type(answers).__name__} cannot be called")
        return Player(agent, answers)


class Player:
    """One agent that is not trained, and its conversation so far.

    Its answers come from `(messages) -> text or Action`, asynchronous or not, which gets the whole
    conversation as chat dictionaries; its own turns are the assistant's.
    """

    def __init__(self, agent: str, answers: Callable[..., Any]) -> None:
        """Take what answers for an agent."""
        self._agent = agent
        self._answers = answers
        self._call = MethodCalls(answers)
        self._said: list[Message] = []

    async def act(self, observation: Observation) -> Action:
        """Answer what the agent is told.

        Raises:
            EnvironmentFailure: The player raised, or gave neither text nor an `Action`.
        """
        if observation.rewrite:
            self._said.clear()
        self._said += observation.messages
        name = f"agent {self._agent!r}"
        answer = await self._call(name, self._answers, as_chat(self._said))
        if isinstance(answer, str):
            answer = Action(answer)
        if not isinstance(answer, Action):
            raise EnvironmentFailure(f"{name} answered {answer!r:.60}; expected text or an Action")
        self._said.append(answer.message)
        return answer

    async def close(self) -> None:
        """Close the player, where it has a `close`.

        Raises:
            EnvironmentFailure: It raised.
        """
        await self._call.close(getattr(self._answers, "close", None))


def make_player_factory(spec: str | Mapping[str, Any], key: str) -> PlayerFactory:
    """Find a player.

    Args:
        spec: A name or an import path, alone or with its arguments as `{name: …, KEY: …}`.
        key: Where it stands in the configuration.

    Raises:
        ConfigError: There is none, or it cannot be made so; the key is named.
        MissingDependency: It needs a package that is not installed.
    """
    given = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"{key}: expected a player's name, or {{name: …, and its arguments}}")
    constructor: Any = PLAYERS.get(name)
    if not callable(constructor):
        raise ConfigError(f"{key}: {name!r} is neither a class nor a function")
    parameters = inspect.signature(constructor).parameters
    messages = () if inspect.isclass(constructor) else tuple(parameters)[:1]
    seeded = "seed" in parameters and "seed" not in given
    skip = (*messages, *(("seed",) if seeded else ()))
    return PlayerFactory(constructor, check_config(constructor, given, key, skip=skip), seeded)
