"""TRL's own loss code on given log-probabilities: `GRPOTrainer._compute_loss` and nothing else."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from trl import GRPOTrainer


def trl_loss(
    logprobs: torch.Tensor,
    inputs: dict[str, torch.Tensor],
    *,
    loss_type: str,
    level: str = "token",
    beta: float = 0.0,
    clip: tuple[float, float] = (0.2, 0.2),
    longest: int = 1,
) -> torch.Tensor:
    """The loss of one batch that is a whole optimizer step."""
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            logprobs,
            torch.zeros_like(logprobs),
            None,
        ),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        beta=beta,
        loss_type=loss_type,
        epsilon_low=clip[0],
        epsilon_high=clip[1],
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        accelerator=SimpleNamespace(
            num_processes=1, gather=_same, reduce=_same, gather_for_metrics=_same
        ),
        model=SimpleNamespace(training=True),
        max_completion_length=longest,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    filled = {
        "prompt_ids": inputs["completion_ids"][:, :1],
        "prompt_mask": inputs["completion_mask"][:, :1],
        "num_items_in_batch": inputs["tool_mask"].sum(),
        **inputs,
    }
    return GRPOTrainer._compute_loss(trainer, None, filled)  # type: ignore[arg-type]


def _same(value: Any, **_: Any) -> Any:
    return value
