"""`FSDPTrainingBackend`: one model cut up over several processes (FSDP2), launched by torchrun.

Every process calls the same methods with the same batches; each computes its share of the rows. The
source of the method is Zhao et al. 2023, "PyTorch FSDP" (arXiv:2304.11277).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from backends.torch.compute.futures import TrainFuture
from backends.torch.compute.passes import PassSettings
from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
from backends.torch.factory import make_reference, prepare_model
from backends.torch.objective import Objective
from backends.torch.processes.connecting import connected_ranks
from backends.torch.processes.launching import NOT_QUANTISED
from backends.torch.processes.orders import (
    ForwardBackward,
    Likeliest,
    Load,
    OptimStep,
    Order,
    Release,
    Save,
    SaveWeights,
    Score,
)
from backends.torch.processes.ranks import Ranks
from backends.torch.processes.sharding import FSDPConfig, shard
from backends.torch.protocol import Metrics
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.rows import TrainingBatch
from retrain.config import ModelConfig
from retrain.engine.transformers_loading import load_model, quiet_transformers
from retrain.errors import ConfigError


class FSDPTrainingBackend(PyTorchTrainingBackend):
    """A `TrainingBackend` over a sharded model.

    Every process calls the same methods with the same batches; or the first one leads, and the
    others follow it (`backends.torch.processes.following`). Checkpoints are those of
    `PyTorchTrainingBackend`: whole weights, and an optimizer's state that any number of processes
    reads.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Objective | str,
        *,
        leads: bool = False,
        **given: Any,
    ) -> None:
        """Take a model that is cut up already.

        Args:
            model: The policy.
            optimizer: Over its parameters.
            loss_fn: Gives each token its loss; or a name in `OBJECTIVES`.
            leads: Have the others do what this process is asked for.
            given: As `PyTorchTrainingBackend` takes it.
        """
        super().__init__(model, optimizer, loss_fn, **given)
        self._leads = leads
        device = self._ranks.device
        if device.type == "cuda":  # which every thread must say for itself
            self._queue.put(lambda: torch.cuda.set_device(device))

    def forward_backward(self, batch: TrainingBatch) -> TrainFuture[Metrics]:
        """See `TrainingBackend`."""
        self._order(ForwardBackward(batch))
        return super().forward_backward(batch)

    def optim_step(self) -> TrainFuture[Metrics]:
        """See `TrainingBackend`."""
        self._order(OptimStep())
        return super().optim_step()

    def score(self, batch: TrainingBatch, *, reference: bool = False) -> TrainFuture[list[Any]]:
        """See `TrainingBackend`."""
        self._order(Score(batch, reference))
        return super().score(batch, reference=reference)

    def likeliest(self, prompts: Sequence[Sequence[int]]) -> TrainFuture[list[float]]:
        """See `TrainingBackend`."""
        self._order(Likeliest(prompts))
        return super().likeliest(prompts)

    async def save_checkpoint(
        self,
        step: int,
        metrics: Mapping[str, float],
        *,
        state: Mapping[str, Any] | None = None,
        shape: Mapping[str, Any] | None = None,
    ) -> Path:
        """See `PyTorchTrainingBackend`."""
        self._order(Save(step))
        return await super().save_checkpoint(step, metrics, state=state, shape=shape)

    async def load_checkpoint(self, path: Path) -> Metrics:
        """See `TrainingBackend`."""
        self._order(Load(path))
        return await super().load_checkpoint(path)

    async def save_weights(self, folder: Path, *, merge: bool = True) -> Path:
        """See `PyTorchTrainingBackend`."""
        self._order(SaveWeights(folder, merge))
        return await super().save_weights(folder, merge=merge)

    async def release(self) -> None:
        """Let those that follow go: the run has ended well."""
        if self._leads:
            await self._queue.put(lambda: self._ranks.told(Release()))

    def _order(self, order: Order) -> None:
        """Tell the others just before this process does it; not where something has failed."""
        if self._leads:
            self._queue.put(lambda: self._ranks.told(order))


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
    ranks: Ranks | None = None,
    leads: bool = False,
) -> FSDPTrainingBackend:
    """Load a model in every process, cut it up, and make a backend over it.

    `torch.distributed` must be initialised: gloo on CPUs, NCCL on GPUs.

    Args:
        model_name: A folder or a name on the Hugging Face Hub; or a `model:` section, whose `peft`
            adds adapters.
        checkpoint_dir: Where checkpoints go; all processes see it.
        loss_fn: Gives each token its loss; or a name in `OBJECTIVES`.
        optimizer: AdamW's settings.
        passes: How passes are made; the budget of tokens is each process's own.
        config: How the model is cut up.
        tokenizer: Saved beside the weights; None leaves it out.
        dropout: Whether the model's own dropout stays.
        ranks: Who trains together; None takes the default group.
        leads: Have the others, which `follow`, do what this process is asked for.

    Raises:
        ConfigError: There is no process group, a quantised model is asked for, or the model cannot
            be loaded.
    """
    section = model_name
    if not isinstance(section, ModelConfig):
        section = ModelConfig(name_or_path=section)
    if section.peft is not None and section.peft.bits is not None:
        raise ConfigError(f"model.peft.bits: {NOT_QUANTISED}")
    ranks = ranks or connected_ranks()
    how, settings = config or FSDPConfig(), optimizer or OptimizerSettings()
    with quiet_transformers():
        model = prepare_model(load_model(section), section, dropout=dropout)
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
        leads=leads,
    )
