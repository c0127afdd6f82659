"""How a model is cut up over processes: FSDP2's `fully_shard`, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from backends.torch.processes.ranks import Ranks


@dataclass(frozen=True, slots=True)
class FSDPConfig:
    """How a model is cut up.

    Attributes:
        mixed_precision: Compute in bfloat16, keep and sum in the weights' own type.
        gradient_checkpointing: Recompute activations in the backward pass.
        reshard_after_forward: Free a layer's gathered weights after its forward pass, at the
            price of gathering them again.
    """

    mixed_precision: bool = True
    gradient_checkpointing: bool = False
    reshard_after_forward: bool = True


def shard(model: nn.Module, how: FSDPConfig, ranks: Ranks) -> None:
    """Cut a model up in place, layer by layer, each of which goes to the device on its own."""
    mesh = init_device_mesh(ranks.device.type, (ranks.processes,))
    half = torch.bfloat16 if how.mixed_precision and ranks.device.type == "cuda" else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
    given: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": policy,
        "reshard_after_forward": how.reshard_after_forward,
    }
    for layer in _layers(model):
        fully_shard(layer, **given)
    fully_shard(model, **given)


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The decoder's layers, which transformers names as those that must not be split."""
    names = set(getattr(model, "_no_split_modules", None) or ())
    for module in model.modules():
        if type(module).__name__ in names:
            yield module
