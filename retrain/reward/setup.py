"""Builds a `RewardCalculator` from the `reward_setup` section of a configuration."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.reward.adapting import Framework, configured, resolve
from retrain.reward.calculator import RewardCalculator
from retrain.reward.combination import load_combination
from retrain.reward.completions import Decode
from retrain.reward.components import ComponentKind, OnFailure, RewardComponent
from retrain.reward.distribution import Distribution
from retrain.reward.normalisation import Normalisation, Normalising
from retrain.reward.registry import REWARDS, STEP_REWARDS, VERIFIERS, Verifier
from retrain.reward.slime_functions import SlimeStyle

if TYPE_CHECKING:
    from retrain.config.rewards import RewardComponentConfig, RewardSetupConfig

_ENVIRONMENT = "environment"
_RETRIES = 2
"""How often `on_failure: retry` tries again where nothing else is said."""


def build_reward_calculator(
    reward_setup: RewardSetupConfig,
    *,
    timeout: float | None = 60.0,
    concurrency: int = 64,
    environment_rewards: bool = True,
    decode: Decode | None = None,
    slime: SlimeStyle | None = None,
) -> RewardCalculator:
    """Build the calculator that a configuration describes.

    The environment's own rewards are the component "environment". The others are named after their
    function; where two would have one name, after their section too ("step/substring_match").

    Args:
        reward_setup: The section.
        timeout: Seconds for one call of a reward function that says nothing else.
        concurrency: Most reward functions that run at once.
        environment_rewards: Whether the environment gives rewards; else it is no component.
        decode: Gives the text of ids, without special tokens; needed by functions over completions.
        slime: What functions of slime's kind are called with; needed by them.

    Raises:
        ConfigError: A name is unknown, a function takes other arguments, or nothing is rewarded;
            the message names the key.
        MissingDependency: A function needs a package that is not installed.
    """
    framework = Framework(decode, slime)
    built = [
        (key, _build(kind, registry, section, key, config, timeout, framework))
        for kind, registry, section, configs in (
            (ComponentKind.STEP, STEP_REWARDS, "step", reward_setup.step_reward_configs),
            (ComponentKind.ROLLOUT, REWARDS, "rollout", reward_setup.rollout_reward_configs),
        )
        for key, config in configs.items()
    ]
    own = _environment(reward_setup, environment_rewards)
    if not built and (not own or own[0].weight == 0):
        fault = "environment_reward_weight is 0" if own else "the environment has no get_reward"
        raise ConfigError(
            f"reward_setup: nothing is rewarded; {fault} and there is neither a step nor a "
            "rollout reward"
        )
    components = [*own, *_named(built)]
    _require_weight(reward_setup.combination, components)
    return RewardCalculator(
        components,
        concurrency=concurrency,
        combine=load_combination(reward_setup.combination, "reward_setup.combination"),
        rescale=reward_setup.missing == "rescale",
        normalisation=_normalising(reward_setup),
    )


def _environment(reward_setup: RewardSetupConfig, rewards: bool) -> list[RewardComponent]:
    if not rewards:
        return []
    component = RewardComponent(
        _ENVIRONMENT,
        ComponentKind.ENVIRONMENT,
        weight=reward_setup.environment_reward_weight,
        discount=reward_setup.environment_reward_discount,
    )
    return [component]


def _build(
    kind: ComponentKind,
    registry: Registry[Callable[..., Any]],
    section: str,
    key: str,
    config: RewardComponentConfig,
    timeout: float | None,
    framework: Framework,
) -> RewardComponent:
    at = f"reward_setup.{section}_reward_configs.{key}"
    function, params = configured(registry, key, kind, config, at, framework)
    how = config.distribution
    return RewardComponent(
        name=key,
        kind=kind,
        function=function,
        params=params,
        weight=config.weight,
        verifiers=tuple(_verifier(name, f"{at}.verifiers") for name in config.verifiers),
        verifier_penalty=config.verifier_penalty,
        on_failure=OnFailure(config.on_failure),
        value=0.0 if config.value is None else config.value,
        timeout=timeout if config.timeout is None else config.timeout,
        retries=_retries(config),
        batch_size=config.batch_size,
        batch_tokens=config.batch_tokens,
        process=key if config.run_in == "process" else None,
        reward_key=config.reward_key,
        distribution=None if how is None else Distribution(how),
        discount=1.0 if config.discount is None else config.discount,
        normalisation=_normalising(config),
    )


def _retries(config: RewardComponentConfig) -> int:
    if config.retries is not None:
        return config.retries
    return _RETRIES if config.on_failure == "retry" else 0


def _normalising(config: RewardComponentConfig | RewardSetupConfig) -> Normalising:
    return Normalising(Normalisation(config.normalisation), config.clip)


def _require_weight(combination: str, components: Sequence[RewardComponent]) -> None:
    if combination == "mean" and not any(component.weight for component in components):
        raise ConfigError("reward_setup.combination: a mean needs a weight that is not 0")


def _verifier(name: str, at: str) -> Verifier:
    verifier = resolve(VERIFIERS, name, at)
    try:
        inspect.signature(verifier).bind(None)
    except TypeError as error:
        raise ConfigError(f"{at}: {name!r} must take (trajectory): {error}") from None
    return verifier


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
