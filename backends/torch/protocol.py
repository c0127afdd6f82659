"""`TrainingBackend`: what a training loop needs of whatever computes gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from backends.torch.compute.futures import TrainFuture
from backends.torch.rows import TrainingBatch

Metrics = dict[str, float]


class TrainingBackend(Protocol):
    """Computes gradients and takes optimizer steps; work is done in the order in which it is asked.

    Attributes:
        step: Optimizer steps that were taken, those before a resume included.
    """

    step: int

    def forward_backward(self, batch: TrainingBatch) -> TrainFuture[Metrics]:
        """Add the gradient of a weighted batch, in micro-batches.

        Returns:
            `train/loss`, and the means over its trained tokens of what was measured.
        """
        ...

    def optim_step(self) -> TrainFuture[Metrics]:
        """Clip the gradient, take a step, and forget the gradient.

        Returns:
            `train/grad_norm` before clipping, `train/learning_rate`, and `step`.
        """
        ...

    def score(self, batch: TrainingBatch, *, reference: bool = False) -> TrainFuture[list[Any]]:
        """Log-probabilities of the trained tokens, without a gradient.

        Args:
            batch: The rows.
            reference: By the reference model in place of the policy.

        Returns:
            [B][R], 0.0 on tokens that are not trained.
        """
        ...

    def likeliest(self, prompts: Sequence[Sequence[int]]) -> TrainFuture[list[float]]:
        """The policy's logprob in nats of the likeliest next token, at temperature 1.

        Args:
            prompts: Token ids, all of one length.
        """
        ...

    async def save_checkpoint(self, step: int, metrics: Mapping[str, float]) -> Path:
        """Save everything that training goes on from; it is complete when this returns.

        Args:
            step: Names the checkpoint.
            metrics: Kept with it.

        Returns:
            Its folder, which holds the weights in Hugging Face's format.
        """
        ...

    async def load_checkpoint(self, path: Path) -> Metrics:
        """Go on where a checkpoint was saved.

        Returns:
            The metrics that were kept with it.

        Raises:
            RetrainError: It is incomplete, damaged or of another model. Where that shows only while
                it is read, the backend is of no further use.
        """
        ...

    async def save_weights(self, folder: Path) -> Path:
        """Write the weights alone, in Hugging Face's format, for an inference server: whole ones.

        Args:
            folder: What to write; it appears when it is whole.
        """
        ...
