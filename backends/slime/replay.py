"""Replay fields that slime wants on all samples of a batch or on none."""

from __future__ import annotations

from typing import Any


def complete_replay(sample: Any, args: Any) -> None:
    """Give a sample without replay data what slime expects in its place.

    slime decides by the first sample of a batch whether a field is there, and then reads it from
    all; an episode that failed before its first turn has none of its own. Its mask is 0
    throughout, so what is replayed there trains nothing.

    Args:
        sample: Slime's sample, filled.
        args: Slime's arguments.
    """
    if getattr(args, "rollout_top_p", 1.0) != 1.0 and sample.rollout_top_p_token_offsets is None:
        sample.rollout_top_p_token_ids = _zeros(0)
        sample.rollout_top_p_token_offsets = _zeros(sample.response_length + 1)
    routed = getattr(args, "use_rollout_routing_replay", False)
    if routed and sample.rollout_routed_experts is None:
        shape = (len(sample.tokens) - 1, args.num_layers, args.moe_router_topk)
        sample.rollout_routed_experts = _zeros(*shape)


def _zeros(*shape: int) -> Any:
    import torch

    return torch.zeros(shape, dtype=torch.int32)
