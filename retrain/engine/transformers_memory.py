"""Memory of the in-process engine: giving it back, and what to lower where it runs out."""

from __future__ import annotations

import torch

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch's CPU allocators and drivers write into a plain RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory was not enough."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def give_back_cached() -> None:
    """Give memory that torch keeps for later to other processes on the device; nothing on a CPU."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def slots_advice(max_slots: int, max_seq_len: int, slot_bytes: int | None) -> str:
    """Say which settings lower the engine's memory.

    Args:
        max_slots: Most episodes that run together.
        max_seq_len: Most tokens of an episode.
        slot_bytes: Bytes of an episode at its longest; None where it is not known.
    """
    size = "" if slot_bytes is None else f" x {slot_bytes / 1024**2:,.1f} MiB at their longest"
    return (
        f"the engine ran out of memory with up to {max_slots} episodes{size}: lower "
        f"rollout.concurrency (so many run together: {max_slots}) or "
        "algorithm.hyperparameters.max_response_len or max_context_len (an episode has at most "
        f"{max_seq_len} tokens)"
    )
