"""A plan's arguments as the objects that train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from backends.base import Plan
from backends.torch.compute.passes import PassSettings
from backends.torch.compute.schedule import OptimizerSettings
from backends.torch.configs import RLTrainingConfig, SFTTrainingConfig
from backends.torch.factory import create_pytorch_backend
from backends.torch.fsdp import FSDPTrainingBackend, create_fsdp_backend
from backends.torch.objective import ImitationObjective, Objective, PolicyObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.processes.sharding import FSDPConfig
from backends.torch.pytorch import PyTorchTrainingBackend
from retrain.report.run_folder import CHECKPOINTS


def make_training_backend(
    plan: Plan, tokenizer: Any, *, loss: Objective | None = None
) -> PyTorchTrainingBackend:
    """Load the plan's model and make what computes its gradients.

    Args:
        plan: What `make_plan` gave.
        tokenizer: Saved beside the weights; None leaves it out.
        loss: In place of the plan's own.

    Raises:
        ConfigError: The model cannot be loaded.
    """
    given = plan.arguments
    return create_pytorch_backend(
        plan.config.model,
        checkpoint_dir=_checkpoints(plan),
        loss_fn=loss or objective(plan),
        device_type=given["device_type"],
        optimizer=optimizer_settings(given),
        passes=pass_settings(given),
        tokenizer=tokenizer,
        dropout=given["dropout"],
        gradient_checkpointing=given["gradient_checkpointing"],
    )


def make_sharded_backend(plan: Plan, tokenizer: Any, ranks: Ranks) -> FSDPTrainingBackend:
    """Load the plan's model and cut it up; the first process leads the others.

    Args:
        plan: What `make_plan` gave.
        tokenizer: Saved beside the weights by the first process.
        ranks: Who trains together.

    Raises:
        ConfigError: The model cannot be loaded.
    """
    given = plan.arguments
    return create_fsdp_backend(
        plan.config.model,
        checkpoint_dir=_checkpoints(plan),
        loss_fn=objective(plan),
        optimizer=optimizer_settings(given),
        passes=replace(pass_settings(given), autocast=None),
        config=FSDPConfig(
            mixed_precision=given["autocast"] is not None,
            gradient_checkpointing=given["gradient_checkpointing"],
            reshard_after_forward=given["reshard_after_forward"],
        ),
        tokenizer=tokenizer,
        dropout=given["dropout"],
        ranks=ranks,
        leads=ranks.first,
    )


def objective(plan: Plan) -> Objective:
    """The loss of a plan."""
    given = plan.arguments
    if plan.config.algorithm.name == "sft":
        return ImitationObjective()
    return PolicyObjective(
        clip_low=given["clip_low"],
        clip_high=given["clip_high"],
        sequence_level=given["sequence_level"],
        kl_coef=given["kl_coef"],
        kl_estimator=given["kl_estimator"],
        truncated_importance=given["truncated_importance"],
    )


def optimizer_settings(given: Mapping[str, Any]) -> OptimizerSettings:
    """The optimizer of a plan's arguments."""
    names = OptimizerSettings.__dataclass_fields__
    return OptimizerSettings(**{name: given[name] for name in names})


def pass_settings(given: Mapping[str, Any]) -> PassSettings:
    """The passes of a plan's arguments."""
    autocast = given["autocast"]
    return PassSettings(
        micro_batch_tokens=given["micro_batch_tokens"],
        packed=given["packing"],
        temperature=given["temperature"],
        autocast=None if autocast is None else getattr(torch, autocast),
        device=torch.device(given["device_type"]),
    )


def sft_config(given: Mapping[str, Any]) -> SFTTrainingConfig:
    """What `run_sft_training` is told."""
    return SFTTrainingConfig(
        num_steps=given["num_steps"],
        batch_size=given["batch_size"],
        checkpoint_every=given["checkpoint_every"],
        aggregation=given["aggregation"],
        seed=given["seed"],
    )


def rl_config(given: Mapping[str, Any]) -> RLTrainingConfig:
    """What `run_rl_training` is told."""
    return RLTrainingConfig(
        num_steps=given["num_steps"],
        rollouts_per_step=given["rollouts_per_step"],
        checkpoint_every=given["checkpoint_every"],
        aggregation=given["aggregation"],
        constant=given["constant"],
        recompute_old=given["truncated_importance"],
        reference=given["kl_coef"] != 0,
    )


def _checkpoints(plan: Plan) -> Path:
    return Path(plan.config.output_dir) / CHECKPOINTS
