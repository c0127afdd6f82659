"""One model that both trainers take for their own: what it says follows from two tokens alone.

A trainer's logprobs are then the same numbers wherever it works them out, so that what the loss
makes of them can be held against the papers' formulas, token by token. No forward pass over a
vocabulary of 150,000 is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

REFERENCE = 0
"""The weights of the reference model. Those of the policy after `step` updates are `step` + 1."""


def logprob(before: Any, token: Any, weights: int, temperature: float) -> Any:
    """The log-probability of a token behind another one, from -2.93 to 0 at temperature 1.

    Args:
        before: An id, or a tensor of ids.
        token: The id that follows; of the same shape.
        weights: Whose: `REFERENCE`, or the policy's after so many updates and one.
        temperature: Divides it.
    """
    return (before * 1_000_003 + token * (10_007 + 62 * weights)) % 4_093 / (-1_400.0 * temperature)


class _Anchored(torch.autograd.Function):
    """Numbers that stand as if a parameter had given them, with a gradient of 0 for it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, anchor: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, gradient.new_zeros(())


def anchored(model: Any, values: Tensor, on_gradient: Callable[[Tensor], None]) -> Tensor:
    """Let values be a model's, and tell what gradient reaches them when it is trained.

    Args:
        model: Gets a gradient of 0.
        values: Log-probabilities.
        on_gradient: Given the gradient by `values`.
    """
    if not torch.is_grad_enabled():
        return values
    *_, last = model.parameters()
    found: Tensor = _Anchored.apply(values, last.sum())  # type: ignore[no-untyped-call]
    found.register_hook(on_gradient)
    return found
