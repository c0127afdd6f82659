"""A tape through slime's path, to rows with their weights in the loss."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from backends.slime import parity_port, parity_real
from backends.slime.context import context_of
from backends.slime.drawing import group_samples
from backends.slime.flags import known_flags
from backends.slime.handover import handover_document
from backends.slime.samples import ours
from retrain.parity import LossRow, Recorded, RecordedOrder
from retrain.parity.rows import rewards_by_name

UNTRAINED_COUNTS = 1
"""`slime/backends/megatron_utils/loss.py` counts every sample's tokens as at least one."""


class RecordedSource:
    """slime's data source over what a tape holds."""

    def __init__(self, recorded: Recorded) -> None:
        """Take the tape's groups."""
        self._order = RecordedOrder(recorded.requests)
        self._samples = recorded.config.algorithm.hyperparameters.n_samples_per_prompt

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """Give the next groups of fresh samples."""
        return [group_samples(request, self._samples) for request in self._order.draw(num_samples)]


def read_rows(
    recorded: Recorded, arguments: Mapping[str, Any], copies: int, *, real: bool
) -> list[LossRow]:
    """Play a tape, convert it and cut it into steps.

    Args:
        recorded: The tape's groups, and the configuration that plays them.
        arguments: The planned arguments.
        copies: Copies of the model.
        real: Whether slime's own code converts; else the port of its contract.
    """
    args = _args(recorded, arguments)
    context = context_of(args)
    context.tasks = {group.task.id: group.task for group in recorded.groups}
    context.composition.rewards.forget()
    source = RecordedSource(recorded)
    rows: list[LossRow] = []
    done = 0
    for rollout_id in range(recorded.config.algorithm.hyperparameters.num_iterations or 1):
        if real:
            samples, data = parity_real.converted(args, rollout_id, source)
            steps = parity_real.steps(args, data, copies)
        else:
            samples, data = parity_port.converted(args, rollout_id, source)
            steps = parity_port.steps(args, data)
        rows += _rows(args, samples, data, steps, done)
        done += len(steps)
    return rows


def _args(recorded: Recorded, arguments: Mapping[str, Any]) -> Namespace:
    """Slime's arguments as far as the conversion reads them; Megatron's defaults are its own."""
    config = recorded.config
    defaults = {
        **{flag.dest: flag.default for flag in known_flags().values() if flag.owner == "megatron"},
        "balance_by_flops": False,
        "balance_data": False,
        "custom_pg_loss_reducer_function_path": None,
        "calculate_per_token_loss": False,
        "load_debug_rollout_data": None,
        "max_tokens_per_gpu": None,
        "micro_batch_size": 1,
        "reward_key": None,
        "use_dynamic_batch_size": False,
    }
    unheard = {"rollout_top_p": 1.0, "use_rollout_routing_replay": False}
    return Namespace(
        **{**defaults, **arguments, **unheard, **handover_document(config, Path(config.output_dir))}
    )


def _rows(
    args: Any,
    samples: Sequence[Any],
    data: Mapping[str, Sequence[Any]],
    steps: Sequence[Sequence[int]],
    done: int,
) -> Iterator[LossRow]:
    parts = _parts(data["sample_indices"])
    for number, step in enumerate(steps):
        weights = _weights(args, data, step)
        for n in step:
            mask = data["loss_masks"][n]
            yield LossRow(
                index=data["sample_indices"][n],
                part=parts[n],
                tokens=tuple(data["tokens"][n]),
                mask=tuple(mask),
                logprobs=tuple(data["rollout_log_probs"][n]),
                reward=None if samples[n].remove_sample else data["raw_reward"][n],
                advantage=data["rewards"][n],
                weights=tuple(weights[n] * trained for trained in mask),
                step=done + number,
                rewards=rewards_by_name(ours(samples[n])),
            )


def _parts(indices: Sequence[int]) -> list[int]:
    """Which of its episode's samples each one is."""
    seen: dict[int, int] = defaultdict(int)
    parts = []
    for index in indices:
        parts.append(seen[index])
        seen[index] += 1
    return parts


def _weights(args: Any, data: Mapping[str, Sequence[Any]], step: Sequence[int]) -> dict[int, float]:
    """The weight of a trained token of each sample of a step.

    Source: `slime/backends/megatron_utils/loss.py` `loss_function` and `cp_utils.py`
    `get_sum_of_sample_mean`; Megatron divides by the step's tokens where the loss is per token.
    """
    trained = {n: sum(data["loss_masks"][n]) for n in step}
    if args.calculate_per_token_loss:
        tokens = sum(max(count, UNTRAINED_COUNTS) for count in trained.values())
        return dict.fromkeys(step, 1 / tokens)
    if args.custom_pg_loss_reducer_function_path is not None:
        return dict.fromkeys(step, 1 / (args.rollout_max_response_len * args.global_batch_size))
    sums = data.get("rollout_mask_sums") or _rollout_sums(data, trained)
    return {n: 1 / (max(sums[n], 1) * args.global_batch_size) for n in step}


def _rollout_sums(data: Mapping[str, Sequence[Any]], trained: Mapping[int, int]) -> dict[int, int]:
    """The trained tokens of each sample's rollout, over all its samples; slime gives them itself.

    Source: `slime/ray/rollout.py` `_convert_samples_to_train_data`, `rollout_mask_sums`.
    """
    rollouts: dict[int, int] = defaultdict(int)
    for n, count in trained.items():
        rollouts[data["rollout_ids"][n]] += count
    return {n: rollouts[data["rollout_ids"][n]] for n in trained}
