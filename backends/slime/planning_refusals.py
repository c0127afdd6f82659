"""What slime cannot honour of a configuration, by key, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from backends.base import Problem
from backends.slime.nesting import gives_segments
from backends.slime.slimes_manager import keeps_partial_groups, manager_refusals
from retrain.config import RunConfig, redact

_HYPER = "algorithm.hyperparameters"
_NO_LORA = (
    "slime trains all of a model: it has no adapters (LoRA); remove the section, or train on TRL"
)
_ENGINES = ("transformers", "sglang")
_SEGMENTED = "an episode of several segments, which {} gives; remove the option"


Refusals = dict[str, tuple[bool, str]]
"""Key to whether it is refused, and why."""


def refusals(config: RunConfig, options: Mapping[str, Any], *, remote_code: bool) -> list[Problem]:
    """What of a configuration cannot be done on slime.

    Args:
        config: The run.
        options: Its `slime_X` options.
        remote_code: Whether the model brings code of its own.
    """
    refused = {
        **_of_sections(config, remote_code=remote_code),
        **_of_hyperparameters(config),
        **_of_segments(config, options),
        **manager_refusals(config),
        **_of_interval(config, options),
        **_of_staleness(config, options),
    }
    found = [Problem(key, text) for key, (wrong, text) in refused.items() if wrong]
    return [*found, *_refills(config), *_credentials(config)]


def _of_sections(config: RunConfig, *, remote_code: bool) -> Refusals:
    return {
        "model.peft": (config.model.peft is not None, _NO_LORA),
        "model.trust_remote_code": (
            remote_code and not config.model.trust_remote_code,
            "the model brings code of its own, and slime and SGLang always run it; set true to "
            "allow that",
        ),
        "rollout.engine": (
            config.rollout.engine not in _ENGINES,
            f"{config.rollout.engine!r}: slime starts SGLang itself, and rollout.engine serves "
            "retrain rollout and retrain eval; remove it for training "
            "(slime_rollout_external_engine_addrs names engines that run already)",
        ),
        "output_dir": (
            any(mark in str(config.output_dir) for mark in "{}"),
            "slime reads { and } in the path of its checkpoints as a place to fill in; rename it",
        ),
    }


def _of_hyperparameters(config: RunConfig) -> Refusals:
    hyper = config.algorithm.hyperparameters
    dr_grpo = config.algorithm.name == "dr_grpo"
    prompt, context = hyper.max_prompt_len or 0, hyper.max_context_len
    return {
        f"{_HYPER}.loss_aggregation": (
            dr_grpo and "loss_aggregation" in hyper.given(),
            "dr_grpo divides by a constant (max_response_len); remove the key",
        ),
        f"{_HYPER}.kl_coef": (
            dr_grpo and hyper.kl_coef > 0,
            "slime divides the policy's loss by dr_grpo's constant, but the KL divergence by the "
            "rollout's tokens; use 0, or grpo",
        ),
        f"{_HYPER}.max_prompt_len": (
            context is not None and prompt >= context,
            f"{prompt} leaves no token to write within max_context_len {context}; lower it",
        ),
        f"{_HYPER}.top_p": (
            hyper.top_p < 1 and config.slime_laptop is not None,
            "slime then replays which tokens could be drawn, which the laptop's engine does not "
            "report; use 1",
        ),
    }


def _of_segments(config: RunConfig, options: Mapping[str, Any]) -> Refusals:
    """What slime's rollout manager cannot do with an episode of several samples."""
    giver = gives_segments(config)
    if giver is None:
        return {}
    return {
        f"{_HYPER}.slime_partial_rollout": (
            bool(options.get("partial_rollout")),
            f"slime's abort cannot read {_SEGMENTED.format(giver)}",
        ),
        "rollout.partial": (
            "partial_rollout" not in options and keeps_partial_groups(config.rollout),
            f"slime's abort cannot read an episode of several segments, which {giver} gives; set "
            "false, or rollout.owner: retrain",
        ),
        f"{_HYPER}.slime_group_rm": (
            bool(options.get("group_rm")),
            f"slime cannot give its reward to {_SEGMENTED.format(giver)}",
        ),
        f"{_HYPER}.slime_use_dynamic_batch_size": (
            options.get("use_dynamic_batch_size") is False,
            "false wants an even number of samples in each step, which is not so with "
            f"{_SEGMENTED.format(giver)}",
        ),
    }


def _of_interval(config: RunConfig, options: Mapping[str, Any]) -> Refusals:
    """How often slime's asynchronous loop sends the weights; the other one always does."""
    key, given = f"{_HYPER}.slime_update_weights_interval", options.get("update_weights_interval")
    if given is None:
        return {}
    if int(given) < 1:
        return {key: (True, f"{given}: expected at least 1, updates for each time it sends them")}
    return {
        key: (
            int(given) > 1 and not config.asynchronous,
            f"{given}: slime's synchronous loop sends the weights after every update; remove it, "
            "or set rollout.asynchronous: true",
        )
    }


def _of_staleness(config: RunConfig, options: Mapping[str, Any]) -> Refusals:
    """How old slime's asynchronous loop lets the weights of a batch grow."""
    bound, age = config.rollout.max_staleness, int(options.get("update_weights_interval") or 1)
    if not config.asynchronous or bound is None or bound >= age:
        return {}
    return {
        "rollout.max_staleness": (
            True,
            f"{bound} is less than slime_update_weights_interval {age}, after which slime's "
            "asynchronous loop renews the weights; lower the interval, or allow more",
        ),
    }


def _refills(config: RunConfig) -> list[Problem]:
    """Where slime's manager would have to draw another task, which nobody can tell it."""
    if config.rollout.owner == "retrain":
        return []
    return [
        Problem(
            f"rollout.failure.{boundary}",
            "refill: slime's rollout manager draws no other task in place of one that failed; use "
            "mask, retry or raise, or rollout.owner: retrain",
        )
        for boundary, action in config.rollout.failure
        if action == "refill"
    ]


def _credentials(config: RunConfig) -> list[Problem]:
    """Values that are taken out of the file by which slime's processes get the configuration."""
    whole = config.model_dump(mode="json")
    sections = {key: whole[key] for key in ("environment", "prompt_source", "reward_setup")}
    sections["evaluation"] = whole["evaluation"]
    return [
        Problem(
            key,
            "is taken for a credential, and none is written where slime's processes could read "
            "it: let the code read an environment variable, set where Ray is started; if it is "
            "none, rename the key or put the rows into a file",
        )
        for key in _changed(sections, redact(sections))
    ]


def _changed(value: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two JSON-like values of the same shape differ, dotted."""
    if isinstance(value, Mapping):
        pairs: Iterable[tuple[Any, Any, Any]] = ((k, v, other[k]) for k, v in value.items())
    elif isinstance(value, list):
        pairs = zip(range(len(value)), value, other, strict=True)
    else:
        if value != other:
            yield path
        return
    for key, inner, changed in pairs:
        yield from _changed(inner, changed, f"{path}.{key}" if path else str(key))
