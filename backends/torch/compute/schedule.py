"""The optimizer and its learning rate, as functions of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from transformers.trainer_pt_utils import get_parameter_names

_NOT_DECAYED = ["bias", "layernorm", "rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
"""Names without weight decay: `Trainer.get_decay_parameter_names` of transformers 5."""


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with warm-up.

    Attributes:
        learning_rate: The peak.
        schedule: How it goes on after the warm-up: constant, linear or cosine to 0.
        warmup_steps: Optimizer steps of linear warm-up from 0.
        total_steps: Optimizer steps of the run; the two that end at 0 need it.
        weight_decay: Decoupled decay; biases and norms have none, as with transformers' trainers.
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
    """AdamW over what the model trains, with its state there from the start.

    Otherwise a checkpoint would lack the state of weights that got no gradient yet (a tower that
    reads images, an expert nobody asked), and torch would refuse to read it; and one that is saved
    before the first step would count a step that was never taken.
    """
    names: Any = get_parameter_names
    decayed = {*names(model, [nn.LayerNorm], _NOT_DECAYED)}
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    groups = [
        {
            "params": [weight for name, weight in trained if (name in decayed) is decays],
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for decays in (True, False)
    ]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
    )
    for _, weight in trained:
        moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[weight] = {"step": torch.tensor(0.0), **moments}
    return optimizer
