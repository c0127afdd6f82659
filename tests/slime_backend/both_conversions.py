"""One set of engine answers through the real conversions of both backends; prints their hashes.

python both_conversions.py CONFIG.json
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backends.slime import plugin
from backends.slime.handover import handover_document
from backends.trl.batching import BatchFiller
from backends.trl.feed import RolloutFeed
from retrain.compose import compose, load_engine, make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.launch import Launch
from retrain.rollout.filter_building import over_sampling
from retrain.runtime import EventLoopThread

DP_SIZE = 2


def trl_rows(config: RunConfig) -> list[tuple[Any, ...]]:
    """What TRL's `rollout_func` returns, and the advantages of its rows."""
    composition = compose(config)
    rollouts = composition.rollouts(load_engine(config.rollout.engine, composition))
    hyper = config.algorithm.hyperparameters
    how = over_sampling(config.rollout, hyper.rollout_batch_size)
    manager = rollouts.managed(make_buffer(config, make_tasks(config)), how)
    with EventLoopThread() as loop:
        feed = RolloutFeed(
            BatchFiller(manager, how, hyper.n_samples_per_prompt, loop, Launch()),
            composition.data_format,
            Launch(),
            weights=contextlib.nullcontext,
            on_groups=lambda *groups: None,
        )
        prompts = [""] * (hyper.rollout_batch_size * hyper.n_samples_per_prompt)
        columns = feed(prompts, Namespace(state=Namespace(global_step=0)))
    keys = ("prompt_ids", "completion_ids", "env_mask", "logprobs")
    return [
        (prompt + response, mask, logprobs, row.advantage)
        for prompt, response, mask, logprobs, row in zip(
            *(columns[key] for key in keys), feed.rows, strict=True
        )
    ]


def slime_rows(config: RunConfig, run_dir: Path) -> list[tuple[Any, ...]]:
    """What slime's rollout manager hands to its data-parallel ranks."""
    from slime.ray.rollout import RolloutManager, build_dp_schedule

    hyper = config.algorithm.hyperparameters
    batch = hyper.rollout_batch_size * hyper.n_samples_per_prompt
    args = Namespace(
        **handover_document(config, run_dir),
        rollout_batch_size=hyper.rollout_batch_size,
        n_samples_per_prompt=hyper.n_samples_per_prompt,
        global_batch_size=batch,
        use_dynamic_batch_size=True,
        max_tokens_per_gpu=512,
        balance_data=False,
        balance_by_flops=False,
        reward_key=None,
    )
    manager_class = RolloutManager.__ray_metadata__.modified_class
    manager = manager_class.__new__(manager_class)
    manager.args = args
    manager.custom_convert_samples_to_train_data_func = None
    manager.custom_reward_post_process_func = plugin.reward_post_process
    manager.generate_rollout, manager.data_source = plugin.generate_rollout, plugin.DataSource(args)
    args.load_debug_rollout_data = None
    samples, _ = manager._get_rollout_data(rollout_id=0)
    data = manager._convert_samples_to_train_data(samples)
    parallel = {
        "dp_size": DP_SIZE,
        "cp_size": 1,
        "vpp_size": 1,
        "microbatch_group_size_per_vp_stage": 1,
    }
    partitions, *_ = build_dp_schedule(
        args,
        parallel,
        [len(tokens) for tokens in data["tokens"]],
        global_batch_size=batch,
        rollout_indices=data["rollout_ids"],
    )
    placed = sorted(index for partition in partitions for index in partition)
    keys = ("tokens", "loss_masks", "rollout_log_probs", "rewards")
    return [tuple(data[key][index] for key in keys) for index in placed]


def digest(rows: Iterable[tuple[Any, ...]]) -> str:
    """A hash of tokens, masks, logprobs and advantages, the numbers as float32."""
    found = hashlib.sha256()
    for tokens, mask, logprobs, advantage in rows:
        found.update(json.dumps([tokens, mask]).encode())
        found.update(struct.pack(f"<{len(logprobs) + 1}f", *logprobs, advantage))
    return found.hexdigest()


def main() -> None:
    path = Path(sys.argv[1])
    config = RunConfig.model_validate(json.loads(path.read_text()))
    trl, slime = trl_rows(config), slime_rows(config, path.parent)
    result = {
        "trl": digest(trl),
        "slime": digest(slime),
        "rows": [len(trl), len(slime)],
        "trained": sum(sum(mask) for _, mask, _, _ in slime),
        "observed": sum(len(mask) - sum(mask) for _, mask, _, _ in slime),
        "advantages": sorted({round(row[-1], 4) for row in slime}),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
