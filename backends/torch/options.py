"""`torch_X` options: what a run may say of the native loop beyond the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from retrain.errors import ConfigError, nearest

MICRO_BATCH_TOKENS = 16384
"""Tokens of a micro-batch, padding included, unless `torch_micro_batch_tokens` says else."""


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class TorchOptions:
    """The options, without their prefix.

    Attributes:
        micro_batch_tokens: Most tokens of one forward and backward pass, padding included.
        packing: Put rows one behind the other rather than padding them.
        gradient_checkpointing: Recompute activations in the backward pass; None does on a GPU.
        mixed_precision: Compute in bfloat16 on a GPU, and keep the weights in their own type.
        reshard_after_forward: Of several processes: free a layer's gathered weights after its
            forward pass, at the price of gathering them again.
        colocate: The servers of `rollout.engine` stand on the trainer's devices: they give their
            memory back while it trains.
        timeout: Of several processes: seconds that one may take for its part of a step before the
            others give it up; rollouts and files take as long as they take.
    """

    micro_batch_tokens: Annotated[int, Field(ge=1)] = MICRO_BATCH_TOKENS
    packing: bool = False
    gradient_checkpointing: bool | None = None
    mixed_precision: bool = True
    reshard_after_forward: bool = True
    colocate: bool = False
    timeout: Annotated[int, Field(ge=1)] = 1800


_KEY = "algorithm.hyperparameters.torch_"


def read_options(given: Mapping[str, Any]) -> TorchOptions:
    """Check `torch_X` options.

    Args:
        given: X to value.

    Raises:
        ConfigError: There is no such option, or its value is of another type.
    """
    known = [field.name for field in fields(TorchOptions)]
    for name in given:
        if name not in known:
            raise ConfigError(f"{_KEY}{name}: there is no such option; {nearest(name, known)}")
    try:
        return TorchOptions(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{_KEY}{name}: {first['msg']}, got {first['input']!r}") from None
