"""From what a configuration names to a function that the calculator can call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.reward.completions import (
    GIVEN,
    CompletionsReward,
    Decode,
    makes_reward,
    takes_completions,
)
from retrain.reward.components import ComponentKind
from retrain.reward.slime_functions import GIVEN as GIVEN_BY_SLIME
from retrain.reward.slime_functions import SlimeStyle, slime_reward, takes_samples
from retrain.reward.taking import Takes, takes_of
from retrain.signatures import check_config

if TYPE_CHECKING:
    from retrain.config.rewards import RewardComponentConfig

_GIVEN = {ComponentKind.STEP: ("turn", "trajectory"), ComponentKind.ROLLOUT: ("trajectory",)}

Configured = tuple[Callable[..., Any], Mapping[str, Any]]
"""A function as the calculator calls it, and its checked keyword arguments."""


@dataclass(frozen=True, slots=True)
class Framework:
    """What functions written for a framework need.

    Attributes:
        decode: Gives the text of ids, without special tokens; for functions over completions.
        slime: What slime's functions are called with.
    """

    decode: Decode | None = None
    slime: SlimeStyle | None = None


def configured(
    registry: Registry[Callable[..., Any]],
    name: str,
    kind: ComponentKind,
    config: RewardComponentConfig,
    at: str,
    framework: Framework,
) -> Configured:
    """The function of a component.

    Args:
        registry: Where its name is looked up.
        name: A name, or an import path.
        kind: Whether it is one of turns or of episodes.
        config: Its configuration.
        at: Where that stands.
        framework: What functions of other frameworks need.

    Raises:
        ConfigError: There is none, it takes other arguments, or it cannot be called so.
        MissingDependency: It needs a package that is not installed.
    """
    function = resolve(registry, name, at)
    adapted, params = _adapted(function, kind, config, at, framework)
    if config.run_in == "process" and adapted is not function:
        raise ConfigError(
            f"{at}.run_in: process is for functions (trajectory), (trajectories) or (turn, "
            f"trajectory); what {name!r} needs does not cross a process"
        )
    _check_batches(adapted, kind, config, at)
    _check_reward_key(function, config, at)
    return adapted, params


def resolve(registry: Registry[Callable[..., Any]], name: str, at: str) -> Callable[..., Any]:
    """The function of a name or an import path.

    Raises:
        ConfigError: There is none.
    """
    try:
        function = registry.get(name)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from error
    if not callable(function):
        raise ConfigError(f"{at}: {name!r} is not a function")
    return function


def _adapted(
    function: Callable[..., Any],
    kind: ComponentKind,
    config: RewardComponentConfig,
    at: str,
    framework: Framework,
) -> Configured:
    key, params = f"{at}.params", config.params
    if kind is ComponentKind.ROLLOUT and makes_reward(function):
        function, params = function(**check_config(function, params, key)), {}
    foreign = "completions" if takes_completions(function) else "samples"
    if foreign == "samples" and not takes_samples(function):
        skip = _given_arguments(kind, function, at)
        return function, check_config(function, params, key, skip=skip)
    if kind is ComponentKind.STEP:
        raise ConfigError(
            f"{at}: this is a function of {foreign}; put it under rollout_reward_configs"
        )
    if foreign == "samples":
        return _of_samples(function, params, at, framework.slime)
    return _of_completions(function, params, at, framework.decode)


def _of_completions(
    function: Callable[..., Any], params: Mapping[str, Any], at: str, decode: Decode | None
) -> Configured:
    if decode is None:
        raise ConfigError(f"{at}: a function of completions needs a tokenizer to decode them")
    try:
        reward = CompletionsReward(function, decode)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from None
    skip = [*GIVEN, *(name for name in reward.needed if name not in params)]
    return reward, check_config(function, params, f"{at}.params", skip=skip)


def _of_samples(
    function: Callable[..., Any], params: Mapping[str, Any], at: str, style: SlimeStyle | None
) -> Configured:
    if style is None:
        raise ConfigError(f"{at}: a function of slime's samples needs a tokenizer to make them")
    named = [name for name in inspect.signature(function).parameters if name not in GIVEN_BY_SLIME]
    own = {key: value for key, value in params.items() if key in named}
    checked = check_config(function, own, f"{at}.params", skip=GIVEN_BY_SLIME)
    return slime_reward(function, style, {**params, **checked}), {}


def _given_arguments(kind: ComponentKind, function: Callable[..., Any], at: str) -> list[str]:
    """Names of the arguments that retrain gives, which `params` cannot set."""
    parameters = inspect.signature(function).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter.name for parameter in parameters if parameter.kind in by_position]
    expected = _GIVEN[kind]
    if len(positional) < len(expected):
        raise ConfigError(f"{at}: the function must take ({', '.join(expected)}) first")
    if kind is ComponentKind.ROLLOUT and positional[0] == "turn":
        raise ConfigError(f"{at}: this is a function of turns; put it under step_reward_configs")
    return positional[: len(expected)]


def _check_reward_key(function: Callable[..., Any], config: RewardComponentConfig, at: str) -> None:
    """Refuse a key that would not be read: a function with a parameter of that name uses it."""
    if config.reward_key is not None and "reward_key" in inspect.signature(function).parameters:
        raise ConfigError(
            f"{at}.reward_key: this function reads it itself; write "
            f"params: {{reward_key: {config.reward_key}}}"
        )


def _check_batches(
    function: Callable[..., Any], kind: ComponentKind, config: RewardComponentConfig, at: str
) -> None:
    takes = Takes.TURN if kind is ComponentKind.STEP else takes_of(function)
    if takes is Takes.EPISODES:
        return
    what = "a whole group" if takes is Takes.GROUP else "one episode"
    for key in ("batch_size", "batch_tokens"):
        if getattr(config, key) is not None:
            raise ConfigError(
                f"{at}.{key}: the function takes {what} at a time; let its first parameter be "
                "`trajectories: list[Trajectory]`, or remove the key"
            )
