"""The state that a model and a thread are in while they generate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn


class GenerationMode:
    """Evaluation mode, no gradients and autocast, entered and left by the engine's own thread.

    Gradients and autocast are states of a thread: what the trainer's thread has set does not reach
    the engine's. Evaluation mode is a state of the model: in training mode with gradient
    checkpointing a transformers model silently uses no KV cache, and TRL tells training from
    evaluation by it, so every module is put back as it was.
    """

    def __init__(self, model: nn.Module, autocast_dtype: torch.dtype | None) -> None:
        """Prepare, entering nothing.

        Args:
            model: The model.
            autocast_dtype: What to compute in; None computes in the model's own type.
        """
        self._model = model
        self._autocast_dtype = autocast_dtype
        self._entered: ExitStack | None = None

    def enter(self) -> None:
        """Enter, unless entered already."""
        if self._entered is not None:
            return
        with ExitStack() as stack:
            stack.enter_context(_evaluating(self._model))
            # inference_mode would leave inference tensors in the model's buffers
            stack.enter_context(torch.no_grad())
            if self._autocast_dtype is not None:
                device = next(self._model.parameters()).device.type
                stack.enter_context(torch.autocast(device, dtype=self._autocast_dtype))
            self._entered = stack.pop_all()

    def leave(self) -> None:
        """Put everything back; weights that autocast has cast are forgotten."""
        if self._entered is not None:
            self._entered.close()
            self._entered = None


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        model.train(modes[0][1])
        for module, training in modes:
            module.training = training
