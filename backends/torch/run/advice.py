"""Which settings lower the memory of a run of the native loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.base import Plan
from backends.local.advice import HYPER, MicroBatchKeys, after_running_out, lower_what
from backends.torch.processes.launching import IN_PROCESS, engine_name
from retrain.config import RunConfig

MICRO_BATCH_TOKENS = f"{HYPER}.torch_micro_batch_tokens"


def what_to_lower(config: RunConfig, arguments: Mapping[str, Any]) -> str:
    """Say which settings to lower, the mildest first.

    Args:
        config: The run.
        arguments: Those of its plan.
    """
    again = arguments["gradient_checkpointing"]
    keys = MicroBatchKeys(
        size=MICRO_BATCH_TOKENS,
        value=arguments["micro_batch_tokens"],
        possible=True,
        checkpointing=None if again else f"{HYPER}.torch_gradient_checkpointing",
    )
    return lower_what(config, keys, engine_here=engine_name(config) == IN_PROCESS)


def remedy(plan: Plan) -> str:
    """How a message that memory ran out ends."""
    todo = what_to_lower(plan.config, plan.arguments)
    return after_running_out(plan.memory.get("peak"), todo)
