"""`AdaptedAgents`: any object with agents as a `MultiAgentEnvironment` that checks its answers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.environment.base import ToolSchema
from retrain.environment.method_calls import MethodCalls
from retrain.environment.replies import as_info, as_reward, as_told
from retrain.environment.several_agents import MultiAgentEnvironment, Outcome
from retrain.errors import ConfigError, EnvironmentFailure, nearest
from retrain.types import Action, Observation, Task

_CALLS: Mapping[str, tuple[str, ...]] = {
    "reset": ("task", "seed"),
    "acting": (),
    "observe": ("agent",),
    "step": ("agent", "action"),
}
"""The methods that there must be, and what each is called with."""


class AdaptedAgents(MultiAgentEnvironment):
    """Runs the methods of a user's object where they must run, and checks what they return.

    Attributes:
        inner: The object.
    """

    def __init__(self, inner: Any) -> None:
        """Take an object.

        Raises:
            ConfigError: A method is missing, or its `agents` are no distinct names.
        """
        check_calls(inner)
        self.inner = inner
        self._agents = checked_names(inner.agents, type(inner).__qualname__)
        self._call = MethodCalls(inner)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names."""
        return self._agents

    @property
    def rewrites_history(self) -> bool:
        """Whether `observe` may give whole histories, as the object says."""
        return bool(getattr(self.inner, "rewrites_history", False))

    @property
    def world(self) -> Any:
        """The object, or what it names itself."""
        return self.inner.world if isinstance(self.inner, MultiAgentEnvironment) else self.inner

    def tools_of(self, agent: str) -> Sequence[ToolSchema]:
        """The tools of an agent; none where the object has no `tools_of`."""
        tools_of = getattr(self.inner, "tools_of", None)
        return () if tools_of is None else tuple(tools_of(agent))

    async def reset(self, task: Task, seed: int) -> None:
        """Begin a match."""
        await self._call("reset", self.inner.reset, task, seed)

    async def acting(self) -> tuple[str, ...]:
        """Who acts next.

        Raises:
            EnvironmentFailure: It raised, or named none of the agents.
        """
        answer = await self._call("acting", self.inner.acting)
        names = (answer,) if isinstance(answer, str) else tuple(answer or ())
        for name in names:
            self._require_known(name, "acting")
        return tuple(agent for agent in self._agents if agent in names)

    async def observe(self, agent: str) -> Observation:
        """What an agent is told: an observation, text, a message or several.

        Raises:
            EnvironmentFailure: It raised, or returned anything else.
        """
        return as_told(await self._call("observe", self.inner.observe, agent), "observe")

    async def step(self, agent: str, action: Action) -> Outcome:
        """Make a move: None, a reward, or `Outcome`.

        Raises:
            EnvironmentFailure: It raised, or returned anything else.
        """
        return _as_outcome(await self._call("step", self.inner.step, agent, action), "step")

    async def leave(self, agent: str) -> bool:
        """Take note that an agent is gone; False where the object has no `leave`.

        Raises:
            EnvironmentFailure: It raised, or returned no bool.
        """
        leave = getattr(self.inner, "leave", None)
        goes_on = False if leave is None else await self._call("leave", leave, agent)
        if not isinstance(goes_on, bool):
            raise EnvironmentFailure(f"leave returned {goes_on!r:.60}; expected True or False")
        return goes_on

    async def outcomes(self) -> dict[str, Outcome]:
        """What the match earns each agent; nothing where the object has no `outcomes`.

        Raises:
            EnvironmentFailure: It raised, or returned no mapping of agents to outcomes.
        """
        ask = getattr(self.inner, "outcomes", None)
        answer = {} if ask is None else await self._call("outcomes", ask)
        if not isinstance(answer, Mapping):
            raise EnvironmentFailure(
                f"outcomes returned {answer!r:.60}; expected a mapping of agents to their rewards"
            )
        for name in answer:
            self._require_known(name, "outcomes")
        return {name: _as_outcome(value, "outcomes") for name, value in answer.items()}

    async def close(self) -> None:
        """Close the object, where it has a `close`.

        Raises:
            EnvironmentFailure: It raised.
        """
        await self._call.close(getattr(self.inner, "close", None))

    def _require_known(self, name: Any, operation: str) -> None:
        if name not in self._agents:
            known = nearest(str(name), self._agents)
            raise EnvironmentFailure(f"{operation} named the agent {name!r}; {known}")


def check_calls(environment: Any) -> None:
    """Check that an object or a class has the methods of several agents.

    Raises:
        ConfigError: One is missing, or cannot be called as retrain calls it.
    """
    cls: type = environment if inspect.isclass(environment) else type(environment)
    unbound = (None,) if inspect.isclass(environment) else ()
    for name, arguments in _CALLS.items():
        function = getattr(environment, name, None)
        form = f"{name}({', '.join(arguments)})"
        if not callable(function):
            raise ConfigError(
                f"{cls.__qualname__}, an environment of several agents, has no {name}; "
                f"expected {form}"
            )
        try:
            inspect.signature(function).bind(*unbound, *arguments)
        except TypeError as error:
            raise ConfigError(
                f"{cls.__qualname__}.{name} cannot be called: {error}; expected {form}"
            ) from None


def checked_names(agents: Any, owner: str) -> tuple[str, ...]:
    """The names of agents.

    Args:
        agents: What `agents` gave.
        owner: Whose they are, for the message.

    Raises:
        ConfigError: They are no distinct texts, or none.
    """
    names = tuple(agents) if isinstance(agents, Sequence) and not isinstance(agents, str) else ()
    texts = all(isinstance(name, str) and name for name in names)
    if not names or not texts or len(set(names)) < len(names):
        raise ConfigError(f"{owner}.agents: {agents!r:.80}, expected distinct names")
    return names


def _as_outcome(value: Any, operation: str) -> Outcome:
    if value is None:
        return Outcome()
    if isinstance(value, Outcome):
        return Outcome(as_reward(value.reward, operation), as_info(value.info, operation))
    return Outcome(as_reward(value, operation))
