"""Whether an estimate fits the device, and what is said where it does not."""

from __future__ import annotations

import os

import torch

from backends.base import Problem, Severity
from backends.local.advice import gibibytes
from backends.local.memory import MemoryEstimate
from backends.local.outline import ModelOutline
from retrain.config import RunConfig
from retrain.launch import Launch

ASSUMED_PROMPT = 512
"""Prompt tokens to reckon with where `max_prompt_len` is not set."""


def row_tokens(config: RunConfig, outline: ModelOutline) -> int:
    """Tokens of the longest row: the prompt and the response, within the context.

    A prompt without a bound is taken to have 512 tokens.
    """
    hyper = config.algorithm.hyperparameters
    positions = getattr(outline.config, "max_position_embeddings", None)
    wanted = (hyper.max_prompt_len or ASSUMED_PROMPT) + hyper.max_response_len
    bounds = [wanted, hyper.max_context_len, positions]
    return min(bound for bound in bounds if isinstance(bound, int))


def memory_problems(estimated: MemoryEstimate, total: int, todo: str) -> list[Problem]:
    """Warn where an estimate is more than the device has.

    Args:
        estimated: What is needed.
        total: Bytes that there are.
        todo: Which settings to lower.
    """
    if estimated.peak <= total:
        return []
    parts = estimated.as_mapping()
    largest = max((name for name in parts if name != "peak"), key=lambda name: parts[name])
    text = (
        f"about {gibibytes(estimated.peak)} of memory are needed, and the device has "
        f"{gibibytes(total)}; most is {largest} ({gibibytes(parts[largest])}): {todo}"
    )
    return [Problem("", text, Severity.WARNING)]


def device_bytes(*, cuda: bool) -> int:
    """All memory of this process's GPU, or of the machine.

    Asking a GPU for its properties takes none of its memory: every process of a launch plans, and
    has not chosen its GPU yet.
    """
    if cuda:
        own = min(Launch.of().local_rank, torch.cuda.device_count() - 1)
        return int(torch.cuda.get_device_properties(own).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
