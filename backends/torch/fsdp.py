"""`FSDPTrainingBackend`: one model cut up over several processes (FSDP2), launched by torchrun.

Every process calls the same methods with the same batches; each computes its share of the rows. The
source of the method is Zhao et al. 2023, "PyTorch FSDP" (arXiv:2304.11277).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from backends.torch.factory import disable_dropout, make_reference
from backends.torch.objective import Objective
from backends.torch.passes import PassSettings
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.ranks import Ranks
from backends.torch.schedule import OptimizerSettings, make_optimizer
from retrain.config import ModelConfig
from retrain.engine.transformers_loading import load_model, quiet_transformers
from retrain.errors import ConfigError


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


class FSDPTrainingBackend(PyTorchTrainingBackend):
    """A `TrainingBackend` over a sharded model.

    Checkpoints are those of `PyTorchTrainingBackend`: whole weights, and an optimizer's state that
    any number of processes reads.
    """


def create_fsdp_backend(
    model_name: str | ModelConfig,
    *,
    checkpoint_dir: Path,
    loss_fn: Objective | str = "grpo",
    optimizer: OptimizerSettings | None = None,
    passes: PassSettings | None = None,
    config: FSDPConfig | None = None,
    tokenizer: Any = None,
    dropout: bool = False,
) -> FSDPTrainingBackend:
    """Load a model in every process, cut it up, and make a backend over it.

    `torch.distributed` must be initialised: gloo on CPUs, NCCL on GPUs.

    Args:
        model_name: A folder or a name on the Hugging Face Hub; or a `model:` section.
        checkpoint_dir: Where checkpoints go; all processes see it.
        loss_fn: Gives each token its loss; or a name in `OBJECTIVES`.
        optimizer: AdamW's settings.
        passes: How passes are made; the budget of tokens is each process's own.
        config: How the model is cut up.
        tokenizer: Saved beside the weights; None leaves it out.
        dropout: Whether the model's own dropout stays.

    Raises:
        ConfigError: There is no process group, adapters are asked for, or the model cannot be
            loaded.
    """
    section = model_name
    if not isinstance(section, ModelConfig):
        section = ModelConfig(name_or_path=section)
    ranks = connected_ranks()
    if section.peft is not None:
        raise ConfigError(
            "model.peft: the torch backend trains adapters in one process; use "
            "create_pytorch_backend, or algorithm.backend: trl"
        )
    how, settings = config or FSDPConfig(), optimizer or OptimizerSettings()
    with quiet_transformers():
        model = load_model(section)
    if not dropout:
        disable_dropout(model)
    model = model.to(ranks.device)
    if how.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    reference = make_reference(model, loss_fn)
    for whole in (model, *([] if reference is None else [reference])):
        shard(whole, how, ranks)
    return FSDPTrainingBackend(
        model,
        make_optimizer(model, settings),
        loss_fn,
        checkpoint_dir=checkpoint_dir,
        settings=settings,
        passes=replace(passes or PassSettings(), device=ranks.device),
        tokenizer=tokenizer,
        reference=reference,
        ranks=ranks,
    )


def connected_ranks() -> Ranks:
    """The processes of the default group, and this one's device.

    Raises:
        ConfigError: There is no group.
    """
    if not distributed.is_initialized():
        raise ConfigError(
            "torch.distributed is not initialised; launch with torchrun and call "
            "torch.distributed.init_process_group('gloo' or 'nccl') first"
        )
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    return Ranks(distributed.get_world_size(), distributed.get_rank(), device)


def shard(model: nn.Module, how: FSDPConfig, ranks: Ranks) -> None:
    """Cut a model up, layer by layer, in place."""
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
