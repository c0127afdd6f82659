"""How a plan's batches are collected, in words."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.base import Plan
    from retrain.config.rollout import RolloutConfig


def explained_collecting(plan: Plan) -> dict[str, str]:
    """How each batch is filled, by what is said about it; empty where nothing is generated."""
    rollout, algorithm = plan.config.rollout, plan.config.algorithm
    if algorithm.name == "sft":
        return {}
    batch = algorithm.hyperparameters.rollout_batch_size
    said = {"groups in play": _in_play(rollout, batch)}
    if rollout.owner == "slime":
        said = {
            "filled by": "slime's own rollout manager, which knows over-sampling by its own keys"
        }
    if rollout.filter is not None:
        said["filter"] = _filter(rollout, batch)
    if rollout.owner == "retrain" and (rollout.over_sampling_factor > 1 or rollout.filter):
        said["half-played groups"] = _half_played(rollout)
    if rollout.max_staleness is not None or rollout.mask_stale_tokens:
        said["older weights"] = _older_weights(rollout)
    if rollout.asynchronous:
        said["next batch"] = "collected while this one is trained on"
    return said


def _in_play(rollout: RolloutConfig, batch: int) -> str:
    factor = rollout.over_sampling_factor
    if factor == 1:
        return f"{batch} = rollout_batch_size, all waited for"
    groups = math.ceil(batch * factor)
    return (
        f"{groups} = rollout_batch_size {batch} x over_sampling_factor {factor:g}; the first "
        f"{batch} to finish are taken"
    )


def _filter(rollout: RolloutConfig, batch: int) -> str:
    most = math.ceil(rollout.max_refills * batch)
    then = "falls back to dropped ones" if rollout.filter_fallback else "ends the run"
    return f"{json.dumps(rollout.filter)}; a batch that drops more than {most} groups {then}"


def _half_played(rollout: RolloutConfig) -> str:
    if rollout.partial:
        return f"go on in the next iteration, {rollout.buffer_filter}"
    return "given up when the batch is full, and counted"


def _older_weights(rollout: RolloutConfig) -> str:
    bound = rollout.max_staleness
    seen = (
        "any number of updates" if bound is None else f"at most {bound} updates, then begun again"
    )
    return f"{seen}; their tokens are {'masked' if rollout.mask_stale_tokens else 'trained on'}"
