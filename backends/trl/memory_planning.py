"""Memory at plan time: what a run will take, whether it fits, and the micro-batch that does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from backends.base import Problem, Severity
from backends.local.adapters import adapted_layers
from backends.local.memory import MemoryEstimate, Workload, estimate
from backends.local.outline import ModelOutline
from backends.trl.advice import gibibytes, what_to_lower
from backends.trl.sizes import BatchSizes
from backends.trl.vllm_planning import uses_vllm, vllm_share
from retrain.config import RunConfig
from retrain.engine.transformers_loading import KV_BYTES, weight_type

ASSUMED_PROMPT = 512
"""Prompt tokens to reckon with where `max_prompt_len` is not set."""


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


def row_tokens(config: RunConfig, outline: ModelOutline) -> int:
    """Tokens of the longest row: the prompt and the response, within the context.

    A prompt without a bound is taken to have 512 tokens.
    """
    hyper = config.algorithm.hyperparameters
    positions = getattr(outline.config, "max_position_embeddings", None)
    wanted = (hyper.max_prompt_len or ASSUMED_PROMPT) + hyper.max_response_len
    bounds = [wanted, hyper.max_context_len, positions]
    return min(bound for bound in bounds if isinstance(bound, int))


def micro_batch_that_fits(
    outline: ModelOutline, work: Workload, global_batch_size: int, total: int
) -> int:
    """The largest micro-batch up to the workload's own whose estimate fits; 1 where none does.

    What is learned does not depend on it: gradients are summed over the global batch.
    """
    divisors = [n for n in range(work.rows, 0, -1) if global_batch_size % n == 0]
    return next((n for n in divisors if estimate(outline, replace(work, rows=n)).peak <= total), 1)


def memory_problems(
    estimated: MemoryEstimate, config: RunConfig, arguments: Mapping[str, Any]
) -> list[Problem]:
    """Warn where the estimate is more than the device has."""
    total = trainer_bytes(arguments)
    if estimated.peak <= total:
        return []
    parts = estimated.as_mapping()
    largest = max((name for name in parts if name != "peak"), key=lambda name: parts[name])
    return [
        Problem(
            "",
            f"about {gibibytes(estimated.peak)} of memory are needed, and the device has "
            f"{gibibytes(total)}; most is {largest} ({gibibytes(parts[largest])}): "
            f"{what_to_lower(config, arguments)}",
            Severity.WARNING,
        )
    ]


def trainer_bytes(arguments: Mapping[str, Any]) -> int:
    """The device's memory without what colocated vLLM keeps of it."""
    return int(device_bytes(cuda=not arguments["use_cpu"]) * (1 - vllm_share(arguments)))


def device_bytes(*, cuda: bool) -> int:
    """All memory of the GPU, or of the machine."""
    if cuda:
        return int(torch.cuda.mem_get_info()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
