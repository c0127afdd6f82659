"""Which settings lower the memory of a run, with the values that they have now."""

from __future__ import annotations

from dataclasses import dataclass

from retrain.config import RunConfig

HYPER = "algorithm.hyperparameters"


@dataclass(frozen=True, slots=True)
class MicroBatchKeys:
    """What a backend calls the settings of its passes.

    Attributes:
        size: The key of the micro-batch's size.
        value: Its value now.
        possible: Whether it can be lowered.
        checkpointing: The key that recomputes activations; None where they are already.
    """

    size: str
    value: int
    possible: bool
    checkpointing: str | None


def lower_what(config: RunConfig, keys: MicroBatchKeys, *, engine_here: bool = True) -> str:
    """Say which settings to lower, the mildest first.

    Args:
        config: The run.
        keys: The backend's own settings.
        engine_here: Whether the turns are written on the trainer's device.
    """
    hyper = config.algorithm.hyperparameters
    steps = [(keys.size, keys.value, keys.possible)]
    steps += [(f"{HYPER}.max_response_len", hyper.max_response_len, True)]
    if hyper.max_context_len is not None:
        steps += [(f"{HYPER}.max_context_len", hyper.max_context_len, True)]
    if config.algorithm.name != "sft" and engine_here:
        steps += [("rollout.concurrency", config.rollout.concurrency, True)]
    lower = ", ".join(f"{key} (now {value})" for key, value, possible in steps if possible)
    others = []
    if keys.checkpointing is not None:
        others.append(f"set {keys.checkpointing}: true")
    if config.model.peft is None:
        others.append("train adapters only with model.peft")
    elif config.model.peft.bits is None:
        others.append("quantise the weights with model.peft.bits: 4")
    return f"lower {lower}" + "".join(f"; or {other}" for other in others)


def after_running_out(peak: int | None, todo: str) -> str:
    """How a message that memory ran out ends.

    Args:
        peak: What the plan has reckoned with; None where it could not.
        todo: Which settings to lower.
    """
    planned = "" if peak is None else f" (the plan reckoned with {gibibytes(peak)})"
    return f"{planned}: {todo}"


def gibibytes(size: int) -> str:
    """Bytes as GiB, or as MiB below a tenth of one."""
    if size < 0.1 * 1024**3:
        return f"{size / 1024**2:.1f} MiB"
    return f"{size / 1024**3:.1f} GiB"
