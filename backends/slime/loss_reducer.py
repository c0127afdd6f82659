"""Dr. GRPO's denominator, as slime loads it by path inside the training processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def constant_denominator(
    total_lengths: Sequence[int],
    response_lengths: Sequence[int],
    loss_masks: Sequence[Any],
    calculate_per_token_loss: bool,
) -> Callable[[Any], Any]:
    """Sum over the tokens, divided by the longest response's; slime divides by the batch.

    Liu et al., Understanding R1-Zero-Like Training (2025): every token weighs the same whatever the
    length of its rollout. The constant is `--rollout-max-response-len`, as on TRL.

    Args:
        total_lengths: Tokens of each row.
        response_lengths: Tokens of each row's response.
        loss_masks: Each row's mask, tensors.
        calculate_per_token_loss: As slime is set; False here, or it would divide by the tokens.
    """
    import torch

    cp_utils = import_module("slime.backends.megatron_utils.cp_utils")
    arguments = import_module("megatron.training.global_vars").get_args()
    longest = float(arguments.rollout_max_response_len)
    constants = [torch.full((), longest, device=mask.device) for mask in loss_masks]
    reduce: Callable[[Any], Any] = cp_utils.get_sum_of_sample_mean(
        total_lengths, response_lengths, loss_masks, constants, calculate_per_token_loss
    )
    return reduce
