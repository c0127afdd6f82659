"""The optimizer and its learning rate, as functions of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with warm-up.

    Attributes:
        learning_rate: The peak.
        schedule: How it goes on after the warm-up: constant, linear or cosine to 0.
        warmup_steps: Optimizer steps of linear warm-up from 0.
        total_steps: Optimizer steps of the run; the two that end at 0 need it.
        weight_decay: Decoupled decay of matrices; biases and norms have none.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        max_grad_norm: Largest norm of the gradient; 0 clips nothing.
    """

    learning_rate: float = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 0
    total_steps: int = 1
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-8
    max_grad_norm: float = 1.0

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of an optimizer step, counted from 0, as transformers' schedules."""
        if step < self.warmup_steps:
            return self.learning_rate * step / max(1, self.warmup_steps)
        if self.schedule == "constant":
            return self.learning_rate
        rest = max(1, self.total_steps - self.warmup_steps)
        done = min(1.0, (step - self.warmup_steps) / rest)
        if self.schedule == "linear":
            return self.learning_rate * (1.0 - done)
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def make_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.AdamW:
    """AdamW over what the model trains."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim >= 2]
    others = [parameter for parameter in trained if parameter.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
    )
