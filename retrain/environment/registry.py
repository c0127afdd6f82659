"""The names of `environment.type`, and environments made from the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retrain.environment.base import Environment
from retrain.environment.casting import Casting, make_casting
from retrain.environment.match import Match
from retrain.environment.several_agents import has_agents
from retrain.environment.several_agents_adapting import AdaptedAgents, check_calls
from retrain.environment.synchronous import adapt, check_methods
from retrain.environment.tool_methods_class import has_tool_methods, tool_schemas
from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.signatures import check_config

ENVIRONMENTS: Registry[Callable[..., Any]] = Registry("environment", "retrain.environments")
ENVIRONMENTS.add_lazy("calculator", "retrain.environment.calculator:CalculatorEnvironment")
ENVIRONMENTS.add_lazy("tools", "retrain.environment.tool_environment:ToolEnvironment")
ENVIRONMENTS.add_lazy("mcp", "retrain.environment.mcp.environment:MCPEnvironment")
for _name, _target in (
    ("function", "function:FunctionEnvironment"),
    ("gem", "gem:GemEnvironment"),
    ("gymnasium", "gymnasium:GymnasiumEnvironment"),
    ("openenv", "openenv:OpenEnvEnvironment"),
    ("reasoning_gym", "reasoning_gym:ReasoningGymEnvironment"),
    ("skyrl_gym", "skyrl_gym:SkyRLGymEnvironment"),
    ("textarena", "textarena:TextArenaEnvironment"),
    ("verifiers", "verifiers:VerifiersEnvironment"),
):
    ENVIRONMENTS.add_lazy(_name, f"retrain.environment.adapters.{_target}")


@dataclass(frozen=True, slots=True)
class EnvironmentFactory:
    """Makes one environment per episode; survives pickling where its class does.

    Attributes:
        constructor: A class, or a function that returns an environment.
        arguments: Its keyword arguments, checked.
        rewards: Whether its environments give rewards of their own.
        casting: Who plays whom, where it has several agents.
    """

    constructor: Callable[..., Any]
    arguments: Mapping[str, Any]
    rewards: bool = True
    casting: Casting | None = None

    @property
    def together(self) -> Casting | None:
        """Who plays whom, where a match is several episodes; else None."""
        return self.casting if self.casting is not None and self.casting.together else None

    def __call__(self) -> Environment:
        """Make an environment; one that is no `Environment` is adapted to be one.

        Of several agents it is the seat of the first one, which can be played where the others are
        played by somebody else.
        """
        if self.casting is None:
            return adapt(self.constructor(**self.arguments))
        agents = AdaptedAgents(self.constructor(**self.arguments))
        (seat,) = Match(agents, self.casting, alone=True).seats.values()
        return seat

    def match(self, timeout: float | None) -> Match:
        """Make a match, whose seats are to be played together.

        Args:
            timeout: Seconds that one call of the environment or of a player may take.
        """
        assert self.casting is not None, "an environment of one agent has no matches"
        agents = AdaptedAgents(self.constructor(**self.arguments))
        return Match(agents, self.casting, timeout=timeout)


def make_environment_factory(
    type: str,
    env_specific_config: Mapping[str, Any] | None = None,
    agents: Mapping[str, str | Mapping[str, Any]] | None = None,
) -> EnvironmentFactory:
    """Resolve the `environment` section of a configuration.

    Args:
        type: A registered name, an import path `package.module:Class` or an entry point. The class
            may be one that TRL's `environment_factory` takes.
        env_specific_config: Keyword arguments of the class.
        agents: `environment.agents`: who plays the agents that are not trained.

    Returns:
        What makes a fresh environment for every episode.

    Raises:
        ConfigError: Nothing of that name, it is no environment, or a key is unknown, missing or of
            a wrong type; the message names `environment.env_specific_config.KEY`.
        MissingDependency: It needs a package that is not installed.
    """
    constructor = ENVIRONMENTS.get(type)
    if not callable(constructor):
        raise ConfigError(f"environment.type: {type!r} is neither a class nor a function")
    has_methods = has_tool_methods(constructor)
    if inspect.isclass(constructor) and not has_methods:
        _check_class(constructor, type)
    key = "environment.env_specific_config"
    arguments = check_config(constructor, env_specific_config or {}, key)
    constructor = _chosen(constructor, arguments)
    casting = make_casting(constructor, arguments, agents or {})
    if has_methods:
        return _tool_methods_factory(constructor, arguments)
    return EnvironmentFactory(constructor, arguments, casting=casting)


def _chosen(constructor: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[..., Any]:
    """The class itself, or the one of several agents that its arguments ask for.

    A class says so by a class method `of_several(arguments)`, which gives that class or None.
    """
    choose = getattr(constructor, "of_several", None)
    chosen: Callable[..., Any] | None = None if choose is None else choose(arguments)
    return constructor if chosen is None else chosen


def _tool_methods_factory(cls: Any, arguments: Mapping[str, Any]) -> EnvironmentFactory:
    from retrain.environment.tool_methods import ToolMethods

    tool_schemas(cls)
    methods = ToolMethods(cls, arguments)
    return EnvironmentFactory(methods, {}, methods.rewards)


def _check_class(constructor: Any, name: str) -> None:
    if inspect.isabstract(constructor):
        missing = ", ".join(sorted(constructor.__abstractmethods__))
        raise ConfigError(f"environment.type: {name!r} does not define {missing}")
    try:
        (check_calls if has_agents(constructor) else check_methods)(constructor)
    except ConfigError as error:
        raise ConfigError(f"environment.type: {error}") from None
