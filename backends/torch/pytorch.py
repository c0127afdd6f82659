"""`PyTorchTrainingBackend`: gradients and optimizer steps on one device."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn

from backends.torch.compute import passes
from backends.torch.compute.futures import TrainFuture, WorkQueue
from backends.torch.compute.packing import require_rows_apart
from backends.torch.compute.passes import PassSettings
from backends.torch.compute.probing import likeliest
from backends.torch.compute.schedule import OptimizerSettings
from backends.torch.objective import Objective, make_objective
from backends.torch.processes.ranks import Ranks
from backends.torch.protocol import Metrics
from backends.torch.rows import TrainingBatch
from backends.torch.saving import checkpoints
from backends.torch.saving.checkpoint_state import read_checkpoint
from backends.torch.saving.hf_weights import write_weights
from retrain.engine.transformers_memory import give_back_cached
from retrain.errors import BackendFailure
from retrain.rollout.state_file import State


class PyTorchTrainingBackend:
    """A `TrainingBackend` over a model of transformers, in a thread of its own.

    Attributes:
        model: The policy.
        step: Optimizer steps that were taken.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Objective | str,
        *,
        checkpoint_dir: Path,
        settings: OptimizerSettings | None = None,
        passes: PassSettings | None = None,
        tokenizer: Any = None,
        reference: nn.Module | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """Take a model that stands on its device already.

        Args:
            model: The policy.
            optimizer: Over its parameters.
            loss_fn: Gives each token its loss; or a name in `OBJECTIVES`.
            checkpoint_dir: Where checkpoints go.
            settings: The learning rate's schedule, and the clipping of gradients.
            passes: How passes are made.
            tokenizer: Saved beside the weights.
            reference: The reference model of a KL term; of a model with an adapter, the model
                without it is taken where none is given.
            ranks: Who trains together.

        Raises:
            ConfigError: There is no loss of that name, or packed rows do not stay apart.
        """
        self.model = model
        self.step = 0
        self._objective = make_objective(loss_fn)
        self._root = checkpoint_dir
        self._settings = settings or OptimizerSettings()
        self._passes = passes or PassSettings()
        self._reference = reference
        self._ranks = ranks or Ranks()
        if self._passes.packed:
            require_rows_apart(model, self._passes)
        self._trained = checkpoints.Trained(model, optimizer, tokenizer, self._ranks)
        self._queue = WorkQueue("retrain-train")

    def observe(self, wrap: Callable[[Objective], Objective]) -> None:
        """Put another objective around the backend's own, to look at what passes; do it first."""
        self._objective = wrap(self._objective)

    def forward_backward(self, batch: TrainingBatch) -> TrainFuture[Metrics]:
        """See `TrainingBackend`.

        Raises:
            LossNotFinite: By the future: the loss is NaN or infinite.
        """
        return self._queue.put(lambda: self._forward_backward(batch))

    def optim_step(self) -> TrainFuture[Metrics]:
        """See `TrainingBackend`.

        Raises:
            BackendFailure: By the future: no parameter has a gradient, or it is not finite.
        """
        return self._queue.put(self._optim_step)

    def score(self, batch: TrainingBatch, *, reference: bool = False) -> TrainFuture[list[Any]]:
        """See `TrainingBackend`."""
        return self._queue.put(lambda: self._score(batch, reference))

    def likeliest(self, prompts: Sequence[Sequence[int]]) -> TrainFuture[list[float]]:
        """See `TrainingBackend`."""
        return self._queue.put(lambda: likeliest(self.model, prompts, self._passes))

    async def save_checkpoint(
        self,
        step: int,
        metrics: Mapping[str, float],
        *,
        state: Mapping[str, Any] | None = None,
        shape: Mapping[str, Any] | None = None,
    ) -> Path:
        """See `TrainingBackend`.

        Args:
            step: Names the checkpoint.
            metrics: Kept with it.
            state: Further JSON values that a resume needs, such as the place in the data.
            shape: What of the run must stay the same over a resume.
        """
        content = {"metrics": dict(metrics), "steps": self.step, **(state or {})}
        saved = State(content, dict(shape or {}))
        return await self._queue.put(
            lambda: checkpoints.save(self._trained, self._root, step, saved)
        )

    async def load_checkpoint(self, path: Path) -> Metrics:
        """See `TrainingBackend`.

        Raises:
            DataError: It is half-written or damaged.
            ConfigError: It is of another model.
        """
        found = read_checkpoint(path)
        await self._queue.put(lambda: checkpoints.load(self._trained, path))
        self.step = int(found.state.get("steps", found.step))
        return dict(found.state.get("metrics", {}))

    async def save_weights(self, folder: Path, *, merge: bool = True) -> Path:
        """See `TrainingBackend`.

        Args:
            folder: What to write; it appears when it is whole.
            merge: Merge an adapter into its base; else it is written alone.
        """
        return await self._queue.put(lambda: self._save_weights(folder, merge))

    async def release(self) -> None:
        """Say that the run has ended well, to processes that follow; alone, nobody does."""

    def close(self) -> None:
        """End the thread, after what it was asked for."""
        self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.close(drop=error is not None)

    def _forward_backward(self, batch: TrainingBatch) -> Metrics:
        self.model.train()
        return passes.forward_backward(
            self.model, batch.rows, self._objective, self._passes, self._ranks
        )

    def _optim_step(self) -> Metrics:
        optimizer = self._trained.optimizer
        self._require_gradient()
        rate = self._settings.learning_rate_at(self.step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        norm = self._clip()
        if not math.isfinite(norm):
            raise BackendFailure(
                f"the norm of the gradient is {norm}, though the loss is finite: no step was "
                "taken; lower learning_rate, and look at the last samples' logprobs and advantages"
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return {"train/grad_norm": norm, "train/learning_rate": rate, "step": float(self.step)}

    def _clip(self) -> float:
        """Clip the gradient, and give its norm before that."""
        limit = self._settings.max_grad_norm or float("inf")
        norm: Any = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        return float(whole)

    def _require_gradient(self) -> None:
        trained = [p for p in self.model.parameters() if p.requires_grad]
        if all(parameter.grad is None for parameter in trained):
            what = "LoRA adapter" if hasattr(self.model, "peft_config") else "model"
            raise BackendFailure(
                f"no gradient reached the {what}: none of its {len(trained)} trainable parameters "
                "has one; call forward_backward first, and check model.peft.target_modules"
            )

    def _score(self, batch: TrainingBatch, reference: bool) -> list[Any]:
        model, context = self._scorer(reference)
        model.eval()  # where dropout is on, it is for the gradient alone
        with context:
            return passes.score_rows(model, batch.rows, self._passes, self._ranks)

    def _scorer(self, reference: bool) -> tuple[nn.Module, AbstractContextManager[Any]]:
        if not reference:
            return self.model, nullcontext()
        if self._reference is not None:
            return self._reference, nullcontext()
        without: Any = getattr(self.model, "disable_adapter", None)
        if without is None:
            raise BackendFailure("there is no reference model; give one where kl_coef is not 0")
        return self.model, without()

    def _save_weights(self, folder: Path, merge: bool) -> Path:
        partial = folder.with_name(f".{folder.name}.partial")
        if self._ranks.first:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        self._ranks.barrier()
        write_weights(self.model, partial, self._ranks, self._trained.tokenizer, merge=merge)
        if self._ranks.first:
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        self._ranks.barrier()
        give_back_cached()  # servers on the same device load the weights now
        return folder
