"""Memory at plan time: what a run will take, whether it fits, and the micro-batch that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from backends.local.adapters import adapted_layers
from backends.local.fitting import device_bytes, row_tokens
from backends.local.memory import MemoryEstimate, Workload, estimate
from backends.local.outline import ModelOutline
from backends.trl.head_memory import head_bytes
from backends.trl.sizes import BatchSizes
from backends.trl.vllm_planning import uses_vllm, vllm_share
from retrain.config import RunConfig
from retrain.engine.transformers_loading import KV_BYTES, weight_type


def plan_workload(
    config: RunConfig, outline: ModelOutline, arguments: Mapping[str, Any], sizes: BatchSizes
) -> Workload:
    """What a run does with its model.

    Args:
        config: The run.
        outline: Its model.
        arguments: What TRL receives.
        sizes: How an iteration is cut up.
    """
    cuda, peft = not arguments["use_cpu"], config.model.peft
    sft = config.algorithm.name == "sft"
    half = torch.bfloat16 if arguments["bf16"] else torch.float16 if arguments["fp16"] else None
    return Workload(
        rows=sizes.micro_batch,
        row_tokens=row_tokens(config, outline),
        slots=0 if sft or uses_vllm(arguments) else min(config.rollout.concurrency, sizes.rows),
        slot_budget=device_bytes(cuda=cuda) // 4 if cuda else KV_BYTES,
        weight_type=weight_type(config.model),
        autocast=half,
        optimizer=str(arguments["optim"]),
        adapter=None if peft is None else (adapted_layers(peft, outline), peft.r),
        bits=None if peft is None else peft.bits,
        reference=arguments.get("beta", 0.0) > 0,
        checkpointing=arguments["gradient_checkpointing"],
        cuda=cuda,
    )


def micro_batch_that_fits(
    outline: ModelOutline, work: Workload, global_batch_size: int, total: int
) -> int:
    """The largest micro-batch up to the workload's own whose estimate fits; 1 where none does.

    What is learned does not depend on it: gradients are summed over the global batch.
    """
    divisors = [n for n in range(work.rows, 0, -1) if global_batch_size % n == 0]
    fitting = (n for n in divisors if trl_memory(outline, replace(work, rows=n)).peak <= total)
    return next(fitting, 1)


def trl_memory(outline: ModelOutline, work: Workload) -> MemoryEstimate:
    """Estimate the memory of a workload on TRL."""
    return estimate(outline, work, head_bytes(outline, work))


def trainer_bytes(arguments: Mapping[str, Any]) -> int:
    """The device's memory without what colocated vLLM keeps of it."""
    return int(device_bytes(cuda=not arguments["use_cpu"]) * (1 - vllm_share(arguments)))
