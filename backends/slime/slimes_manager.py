"""How slime's own rollout manager (`rollout.owner: slime`) fills a batch, from our keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from retrain.config import RolloutConfig, RunConfig

_OWN = "slime's own rollout manager {}; remove it, or set rollout.owner: retrain"


def manager_arguments(config: RunConfig, plugin: str) -> dict[str, Any]:
    """The options by which slime's manager over-samples, filters and keeps half-played groups.

    Args:
        config: The run.
        plugin: The module of the functions that slime loads by path.
    """
    rollout = config.rollout
    sent: dict[str, Any] = {}
    if rollout.filter is not None:
        sent["dynamic_sampling_filter_path"] = f"{plugin}.dynamic_filter"
    if rollout.over_sampling_factor > 1:
        groups = config.algorithm.hyperparameters.rollout_batch_size * rollout.over_sampling_factor
        sent["over_sampling_batch_size"] = math.ceil(groups)
    if keeps_partial_groups(rollout):
        sent["partial_rollout"] = True
        if rollout.mask_stale_tokens:
            sent["mask_offpolicy_in_partial_rollout"] = True
    return sent


def keeps_partial_groups(rollout: RolloutConfig) -> bool:
    """Whether slime's manager is told to keep what is half played; else nothing ever is."""
    leaves_some = rollout.over_sampling_factor > 1 or rollout.filter is not None
    return rollout.owner == "slime" and leaves_some and rollout.partial


def manager_refusals(config: RunConfig) -> Mapping[str, tuple[bool, str]]:
    """Keys that slime's manager has no word for: whether each is refused, and why."""
    rollout = config.rollout
    if rollout.owner == "retrain":
        return {}
    standard = RolloutConfig()
    return {
        "rollout.buffer_filter": (
            rollout.buffer_filter != standard.buffer_filter,
            _OWN.format("takes a filter over its own samples (slime_buffer_filter_path)"),
        ),
        "rollout.max_refills": (
            rollout.max_refills != standard.max_refills,
            _OWN.format("draws as often as its filter asks"),
        ),
        "rollout.max_staleness": (
            rollout.max_staleness is not None
            and (not config.asynchronous or keeps_partial_groups(rollout)),
            _OWN.format("does not bound how long a half-played group waits"),
        ),
    }
