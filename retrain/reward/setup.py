"""Builds a `RewardCalculator` from the `reward_setup` section of a configuration."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.reward.calculator import RewardCalculator
from retrain.reward.completions import (
    GIVEN,
    CompletionsReward,
    Decode,
    makes_reward,
    takes_completions,
)
from retrain.reward.components import ComponentKind, OnFailure, RewardComponent
from retrain.reward.registry import REWARDS, STEP_REWARDS, VERIFIERS, Verifier
from retrain.signatures import check_config

_ENVIRONMENT = "environment"
_GIVEN = {ComponentKind.STEP: ("turn", "trajectory"), ComponentKind.ROLLOUT: ("trajectory",)}


class ComponentConfig(Protocol):
    """One entry of `step_reward_configs` or `rollout_reward_configs`."""

    @property
    def weight(self) -> float:
        """Its factor in the sum."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Keyword arguments of the function."""

    @property
    def verifiers(self) -> Sequence[str]:
        """Names or import paths."""

    @property
    def verifier_penalty(self) -> float:
        """The component's value where a verifier does not hold."""

    @property
    def on_failure(self) -> str:
        """drop, raise or value."""

    @property
    def value(self) -> float | None:
        """The component's value where it fails and `on_failure` is value."""


class RewardSetup(Protocol):
    """The `reward_setup` section."""

    @property
    def step_reward_configs(self) -> Mapping[str, ComponentConfig]:
        """Functions over one turn, by name or import path."""

    @property
    def rollout_reward_configs(self) -> Mapping[str, ComponentConfig]:
        """Functions over an episode, by name or import path."""

    @property
    def environment_reward_weight(self) -> float:
        """Weight of the environment's own rewards."""


def build_reward_calculator(
    reward_setup: RewardSetup,
    *,
    timeout: float | None = 60.0,
    concurrency: int = 64,
    environment_rewards: bool = True,
    decode: Decode | None = None,
) -> RewardCalculator:
    """Build the calculator that a configuration describes.

    The environment's own rewards are the component "environment". The others are named after their
    function; where two would have one name, after their section too ("step/substring_match").

    Args:
        reward_setup: The section.
        timeout: Seconds for one reward function.
        concurrency: Most reward functions that run at once.
        environment_rewards: Whether the environment gives rewards; else it is no component.
        decode: Gives the text of ids, without special tokens; needed by functions over completions.

    Raises:
        ConfigError: A name is unknown, a function takes other arguments, or nothing is rewarded;
            the message names the key.
        MissingDependency: A function needs a package that is not installed.
    """
    weight = reward_setup.environment_reward_weight
    own = [RewardComponent(_ENVIRONMENT, ComponentKind.ENVIRONMENT, weight=weight)]
    built = [
        (key, _build(kind, registry, section, key, config, timeout, decode))
        for kind, registry, section, configs in (
            (ComponentKind.STEP, STEP_REWARDS, "step", reward_setup.step_reward_configs),
            (ComponentKind.ROLLOUT, REWARDS, "rollout", reward_setup.rollout_reward_configs),
        )
        for key, config in configs.items()
    ]
    if not built and (weight == 0 or not environment_rewards):
        fault = (
            "environment_reward_weight is 0"
            if environment_rewards
            else "the environment has no get_reward"
        )
        raise ConfigError(
            f"reward_setup: nothing is rewarded; {fault} and there is neither a step nor a "
            "rollout reward"
        )
    components = [*(own if environment_rewards else []), *_named(built)]
    return RewardCalculator(components, concurrency=concurrency)


def _build(
    kind: ComponentKind,
    registry: Registry[Callable[..., Any]],
    section: str,
    key: str,
    config: ComponentConfig,
    timeout: float | None,
    decode: Decode | None,
) -> RewardComponent:
    at = f"reward_setup.{section}_reward_configs.{key}"
    function, params = _configured(_resolve(registry, key, at), kind, config, at, decode)
    return RewardComponent(
        name=key,
        kind=kind,
        function=function,
        params=params,
        weight=config.weight,
        verifiers=tuple(_verifier(name, f"{at}.verifiers") for name in config.verifiers),
        verifier_penalty=config.verifier_penalty,
        on_failure=OnFailure(config.on_failure),
        value=_replacement(config, at),
        timeout=timeout,
    )


def _configured(
    function: Callable[..., Any],
    kind: ComponentKind,
    config: ComponentConfig,
    at: str,
    decode: Decode | None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function as the calculator calls it, and its checked keyword arguments."""
    key, params = f"{at}.params", config.params
    if kind is ComponentKind.ROLLOUT and makes_reward(function):
        function, params = function(**check_config(function, params, key)), {}
    if not takes_completions(function):
        skip = _given_arguments(kind, function, at)
        return function, check_config(function, params, key, skip=skip)
    if kind is ComponentKind.STEP:
        raise ConfigError(
            f"{at}: this is a function of completions; put it under rollout_reward_configs"
        )
    if decode is None:
        raise ConfigError(f"{at}: a function of completions needs a tokenizer to decode them")
    try:
        reward = CompletionsReward(function, decode)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from None
    skip = [*GIVEN, *(name for name in reward.needed if name not in params)]
    return reward, check_config(function, params, key, skip=skip)


def _resolve(registry: Registry[Callable[..., Any]], name: str, at: str) -> Callable[..., Any]:
    try:
        function = registry.get(name)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from error
    if not callable(function):
        raise ConfigError(f"{at}: {name!r} is not a function")
    return function


def _verifier(name: str, at: str) -> Verifier:
    verifier = _resolve(VERIFIERS, name, at)
    try:
        inspect.signature(verifier).bind(None)
    except TypeError as error:
        raise ConfigError(f"{at}: {name!r} must take (trajectory): {error}") from None
    return verifier


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


def _replacement(config: ComponentConfig, at: str) -> float:
    if config.on_failure == OnFailure.VALUE and config.value is None:
        raise ConfigError(f"{at}.value: missing; on_failure is value")
    return 0.0 if config.value is None else config.value


def _named(built: Sequence[tuple[str, RewardComponent]]) -> list[RewardComponent]:
    """Give each component the shortest name that no other has."""
    candidates = [
        (key.rpartition(":")[2], f"{c.kind}/{key.rpartition(':')[2]}", f"{c.kind}/{key}")
        for key, c in built
    ]
    names = [short for short, _, _ in candidates]
    for level in (1, 2):
        taken = Counter([_ENVIRONMENT, *names])
        names = [
            options[level] if taken[name] > 1 else name
            for name, options in zip(names, candidates, strict=True)
        ]
    return [replace(c, name=name) for name, (_, c) in zip(names, built, strict=True)]
