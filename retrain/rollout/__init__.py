"""Which tasks are played, and how batches are filled from them.

The names here are for programs that make batches of samples without a training framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.rollout.agents import agent_rollout_to_sample as agent_rollout_to_sample
    from retrain.rollout.agents import generate_rollout_batch as generate_rollout_batch
    from retrain.rollout.async_manager import AsyncRolloutManager as AsyncRolloutManager
    from retrain.rollout.async_manager import generate_rollout_batches as generate_rollout_batches
    from retrain.rollout.buffer import DataBuffer as DataBuffer
    from retrain.rollout.config import RolloutBatch as RolloutBatch
    from retrain.rollout.config import RolloutConfig as RolloutConfig

_NAMES = {
    "AsyncRolloutManager": "async_manager",
    "DataBuffer": "buffer",
    "RolloutBatch": "config",
    "RolloutConfig": "config",
    "agent_rollout_to_sample": "agents",
    "generate_rollout_batch": "agents",
    "generate_rollout_batches": "async_manager",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: importing this package loads nothing."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
