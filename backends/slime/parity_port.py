"""slime's conversion and its cut into steps, for machines where slime is not importable.

A port of the contract, not of the code. Source: slime 0.3.1 (624b824a), `slime/ray/rollout.py`
`_convert_samples_to_train_data` and `slime/utils/dp_schedule.py` `build_dp_schedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.slime import plugin
from backends.slime.samples import flat


def converted(args: Any, rollout_id: int, source: Any) -> tuple[list[Any], dict[str, Any]]:
    """Collect one rollout and convert it.

    Args:
        args: Slime's arguments.
        rollout_id: Which rollout.
        source: Gives the groups that are to be played.

    Returns:
        The samples, and the training data by slime's names, a list of one entry per sample each.
    """
    samples = list(flat(plugin.generate_rollout(args, rollout_id, source).samples))
    raw, advantages = plugin.reward_post_process(args, samples)
    masks = [
        [0] * sample.response_length if sample.remove_sample else sample.loss_mask
        for sample in samples
    ]
    return samples, {
        "tokens": [sample.tokens for sample in samples],
        "loss_masks": masks,
        "rollout_log_probs": [sample.rollout_log_probs for sample in samples],
        "rewards": advantages,
        "raw_reward": raw,
        "sample_indices": [sample.index for sample in samples],
        "rollout_ids": [sample.rollout_id for sample in samples],
    }


def steps(args: Any, data: dict[str, Any]) -> list[list[int]]:
    """The samples of each optimizer step, by position.

    A step holds `global_batch_size` rollouts with all their samples, in order of appearance; the
    rollouts that fill no step are dropped.
    """
    rollouts: Sequence[int] = list(dict.fromkeys(data["rollout_ids"]))
    size = args.global_batch_size
    cut = [rollouts[at : at + size] for at in range(0, len(rollouts) - size + 1, size)]
    return [[n for n, rollout in enumerate(data["rollout_ids"]) if rollout in own] for own in cut]
