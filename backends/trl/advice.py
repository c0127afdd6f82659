"""Which settings lower the memory of a run on TRL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.local.advice import HYPER, MicroBatchKeys, lower_what
from retrain.config import RunConfig


def what_to_lower(config: RunConfig, arguments: Mapping[str, Any]) -> str:
    """Say which settings to lower, the mildest first.

    Args:
        config: The run.
        arguments: What TRL receives.
    """
    micro, again = arguments["per_device_train_batch_size"], arguments["gradient_checkpointing"]
    keys = MicroBatchKeys(
        size=f"{HYPER}.trl_per_device_train_batch_size",
        value=micro,
        possible=micro > 1,
        checkpointing=None if again else f"{HYPER}.trl_gradient_checkpointing",
    )
    return lower_what(config, keys)
