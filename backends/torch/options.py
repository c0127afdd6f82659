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
    """

    micro_batch_tokens: Annotated[int, Field(ge=1)] = MICRO_BATCH_TOKENS
    packing: bool = False
    gradient_checkpointing: bool | None = None


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
