"""slime's own policy loss over the rows that it is given, its forward pass `fuzz_forward`'s.

Megatron's parallel state is that of one process. Source: slime 0.3.1,
`slime/backends/megatron_utils/loss.py`.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fuzz_forward import REFERENCE, logprob

from backends.slime import parity_rows
from backends.slime.flags import known_flags
from retrain.parity import LossReading, LossRow, Recorded
from retrain.parity.rows import Place


def slime_slopes(
    recorded: Recorded, reading: LossReading, arguments: Mapping[str, Any]
) -> dict[Place, tuple[float, ...]]:
    """What gradient slime's loss gives to the logprobs of each row's response.

    Args:
        recorded: The episodes.
        reading: What entered the loss, with its optimizer steps.
        arguments: The planned arguments.

    Returns:
        By the row's place; nothing where RETRAIN_MEGATRON names no checkout.
    """
    megatron = os.environ.get("RETRAIN_MEGATRON")
    if megatron is None:
        return {}
    if megatron not in sys.path:
        sys.path.append(megatron)
    own = {flag.dest: flag.default for flag in known_flags().values() if flag.owner == "slime"}
    args = parity_rows._args(recorded, {**own, **arguments})
    hyper = recorded.config.algorithm.hyperparameters
    rollouts = hyper.rollout_batch_size * hyper.n_samples_per_prompt
    per_iteration = rollouts // hyper.global_batch_size
    steps: dict[int, list[LossRow]] = defaultdict(list)
    for row in reading.rows:
        steps[row.step].append(row)
    found: dict[Place, tuple[float, ...]] = {}
    for step, rows in steps.items():
        first = step - step % per_iteration
        found.update(_of_step(args, rows, step, first, hyper.temperature))
    return found


def _of_step(
    args: Any, rows: Sequence[LossRow], step: int, first: int, temperature: float
) -> Iterator[tuple[Place, tuple[float, ...]]]:
    loss: Any = import_module("slime.backends.megatron_utils.loss")
    sizes: Any = import_module("slime.backends.megatron_utils.cp_utils")
    said = [_said(row, step + 1, temperature).requires_grad_() for row in rows]
    masks = [torch.tensor(row.mask, dtype=torch.float32) for row in rows]
    batch = {
        "advantages": [torch.full((len(row.mask),), row.advantage) for row in rows],
        "rollout_log_probs": [torch.tensor(row.logprobs) for row in rows],
        "log_probs": [_said(row, first + 1, temperature) for row in rows],
        "ref_log_probs": [_said(row, REFERENCE, temperature) for row in rows],
        "loss_masks": masks,
        "response_lengths": [len(row.mask) for row in rows],
        "total_lengths": [len(row.tokens) for row in rows],
        "rollout_mask_sums": _rollout_sums(rows),
        "unconcat_tokens": None,
    }
    scored = {"log_probs": said, "entropy": [torch.zeros(len(row.mask)) for row in rows]}
    with pytest.MonkeyPatch.context() as patch, torch.compiler.set_stance("force_eager"):
        patch.setattr(loss, "get_log_probs_and_entropy", lambda *_, **__: (None, scored))
        patch.setattr(loss, "all_gather_with_cp", lambda values, *_: values)
        patch.setattr(loss, "get_rollout_top_p_logprob_kwargs", lambda *_: {})
        told = SimpleNamespace(get_args=lambda: args)
        patch.setitem(sys.modules, "megatron.training.global_vars", told)
        patch.setattr(sizes.mpu, "get_context_parallel_world_size", lambda: 1)
        reduce = sizes.get_sum_of_sample_mean(
            batch["total_lengths"],
            batch["response_lengths"],
            masks,
            batch["rollout_mask_sums"],
            args.calculate_per_token_loss,
        )
        whole, _ = loss.policy_loss_function(args, batch, torch.zeros(1), reduce)
    tokens = sum(max(row.trained, parity_rows.UNTRAINED_COUNTS) for row in rows)
    scale = tokens if args.calculate_per_token_loss else args.global_batch_size
    slopes = torch.autograd.grad(whole / scale, said)
    for row, slope, mask in zip(rows, slopes, masks, strict=True):
        yield row.place, tuple((slope * mask).tolist())


def _said(row: LossRow, weights: int, temperature: float) -> torch.Tensor:
    """[R] what weights say of a response."""
    tokens = torch.tensor(row.tokens)
    start = len(row.tokens) - len(row.mask)
    found: torch.Tensor = logprob(tokens[start - 1 : -1], tokens[start:], weights, temperature)
    return found


def _rollout_sums(rows: Sequence[LossRow]) -> list[torch.Tensor]:
    """The trained tokens of each row's rollout."""
    sums: dict[int, int] = defaultdict(int)
    for row in rows:
        sums[row.index] += row.trained
    return [torch.tensor(sums[row.index]) for row in rows]
