"""Which settings lower the memory of a run, with the values that they have now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.config import RunConfig

_HYPER = "algorithm.hyperparameters"


def what_to_lower(config: RunConfig, arguments: Mapping[str, Any]) -> str:
    """Say which settings to lower, the mildest first.

    Args:
        config: The run.
        arguments: What TRL receives.
    """
    hyper = config.algorithm.hyperparameters
    micro = arguments["per_device_train_batch_size"]
    steps = [(f"{_HYPER}.trl_per_device_train_batch_size", micro, micro > 1)]
    steps += [(f"{_HYPER}.max_response_len", hyper.max_response_len, True)]
    if hyper.max_context_len is not None:
        steps += [(f"{_HYPER}.max_context_len", hyper.max_context_len, True)]
    if config.algorithm.name != "sft":
        steps += [("rollout.concurrency", config.rollout.concurrency, True)]
    lower = ", ".join(f"{key} (now {value})" for key, value, possible in steps if possible)
    others = []
    if not arguments["gradient_checkpointing"]:
        others.append(f"set {_HYPER}.trl_gradient_checkpointing: true")
    if config.model.peft is None:
        others.append("train adapters only with model.peft")
    elif config.model.peft.bits is None:
        others.append("quantise the weights with model.peft.bits: 4")
    return f"lower {lower}" + "".join(f"; or {other}" for other in others)


def gibibytes(size: int) -> str:
    """Bytes as GiB, or as MiB below a tenth of one."""
    if size < 0.1 * 1024**3:
        return f"{size / 1024**2:.1f} MiB"
    return f"{size / 1024**3:.1f} GiB"
