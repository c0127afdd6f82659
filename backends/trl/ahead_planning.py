"""Collecting ahead on TRL, at plan time: which engine can do it, and what it cannot go with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.trl.vllm_planning import SERVER, uses_vllm
from retrain.config import RunConfig


def asynchronous_refusals(
    config: RunConfig, options: Mapping[str, Any]
) -> dict[str, tuple[bool, str]]:
    """Why the next batch cannot be collected while TRL trains on this one, by key.

    Only a server has weights of its own; sft collects nothing, and does not mind.

    Args:
        config: The run.
        options: The checked `trl_X` options.
    """
    ahead = config.asynchronous and config.algorithm.name != "sft"
    server = uses_vllm(options) and options.get("vllm_mode") == SERVER
    shared = (
        "vLLM in the training process is one with the trainer's device, and gets its weights there"
        if uses_vllm(options)
        else "the engine in the training process writes with the very weights that are trained on"
    )
    return {
        "rollout.asynchronous": (
            ahead and not server,
            f"{shared}, so it cannot write the next batch meanwhile; set trl_use_vllm: true with "
            "trl_vllm_mode: server, or asynchronous: false",
        ),
        "rollout.mask_stale_tokens": (
            ahead and config.rollout.mask_stale_tokens,
            "would mask nearly every token: a batch that is collected ahead is written by weights "
            "one update old; use importance_correction: tis, and max_staleness for a bound",
        ),
    }
