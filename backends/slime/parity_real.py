"""slime's own conversion and schedule, called without its cluster."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from backends.slime import plugin


def converted(args: Any, rollout_id: int, source: Any) -> tuple[list[Any], dict[str, Any]]:
    """Collect one rollout with slime's rollout manager and convert it as slime does.

    The manager's class is taken out of its Ray actor, and what its `__init__` would have set from
    `args` is set here; no engine, router or Ray cluster is started.

    Args:
        args: Slime's arguments.
        rollout_id: Which rollout.
        source: Gives the groups that are to be played.

    Returns:
        The samples, and the training data by slime's names, a list of one entry per sample each.
    """
    actor = import_module("slime.ray.rollout").RolloutManager
    manager_class = actor.__ray_metadata__.modified_class
    manager = manager_class.__new__(manager_class)
    manager.args, manager.data_source = args, source
    manager.generate_rollout = plugin.generate_rollout
    manager.custom_convert_samples_to_train_data_func = None
    manager.custom_reward_post_process_func = plugin.reward_post_process
    samples, _ = manager._get_rollout_data(rollout_id=rollout_id)
    return samples, manager._convert_samples_to_train_data(samples)


def steps(args: Any, data: dict[str, Any], copies: int) -> list[list[int]]:
    """The samples of each optimizer step, by position, as slime's schedule deals them out.

    Args:
        args: Slime's arguments.
        data: The training data.
        copies: Copies of the model that share a step.
    """
    build = import_module("slime.utils.dp_schedule").build_dp_schedule
    parallel = {
        "dp_size": copies,
        "cp_size": 1,
        "vpp_size": 1,
        "microbatch_group_size_per_vp_stage": 1,
    }
    partitions, micro_batches, counts, _ = build(
        args,
        parallel,
        [len(tokens) for tokens in data["tokens"]],
        global_batch_size=args.global_batch_size,
        rollout_indices=data["rollout_ids"],
    )
    found: list[list[int]] = []
    at = 0
    for count in counts:
        found.append(
            [
                partition[n]
                for partition, batches in zip(partitions, micro_batches, strict=True)
                for batch in batches[at : at + count]
                for n in batch
            ]
        )
        at += count
    return found
