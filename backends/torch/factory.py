"""`create_pytorch_backend`: a model by name, on its device, with optimizer and loss."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from backends.torch.compute.passes import PassSettings
from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
from backends.torch.objective import Objective
from backends.torch.pytorch import PyTorchTrainingBackend
from retrain.config import ModelConfig
from retrain.engine.transformers_loading import load_model, quiet_transformers


def create_pytorch_backend(
    model_name: str | ModelConfig,
    *,
    checkpoint_dir: Path,
    loss_fn: Objective | str = "grpo",
    device_type: str | None = None,
    learning_rate: float | None = None,
    optimizer: OptimizerSettings | None = None,
    passes: PassSettings | None = None,
    tokenizer: Any = None,
    dropout: bool = False,
    gradient_checkpointing: bool = False,
) -> PyTorchTrainingBackend:
    """Load a model and make a backend for one device.

    Args:
        model_name: A folder or a name on the Hugging Face Hub; or a `model:` section, whose `peft`
            adds adapters.
        checkpoint_dir: Where checkpoints go.
        loss_fn: Gives each token its loss; or a name in `OBJECTIVES`.
        device_type: cpu or cuda; None takes a GPU where there is one.
        learning_rate: In place of the settings'.
        optimizer: AdamW's settings.
        passes: How passes are made.
        tokenizer: Saved beside the weights; None leaves it out.
        dropout: Whether the model's own dropout stays; in reinforcement learning it would make
            the trainer's log-probabilities differ from the engine's.
        gradient_checkpointing: Recompute activations in the backward pass.

    Raises:
        ConfigError: The model cannot be loaded, or there is no loss of that name.
    """
    section = model_name if isinstance(model_name, ModelConfig) else _section(model_name)
    device = torch.device(device_type or ("cuda" if torch.cuda.is_available() else "cpu"))
    settings = optimizer or OptimizerSettings()
    if learning_rate is not None:
        settings = replace(settings, learning_rate=learning_rate)
    with quiet_transformers():
        model = prepare_model(load_model(section), section, dropout=dropout)
    quantised = section.peft is not None and section.peft.bits is not None
    model = model if quantised else model.to(device)
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return PyTorchTrainingBackend(
        model,
        make_optimizer(model, settings),
        loss_fn,
        checkpoint_dir=checkpoint_dir,
        settings=settings,
        passes=replace(passes or PassSettings(), device=device),
        tokenizer=tokenizer,
        reference=make_reference(model, loss_fn),
    )


def prepare_model(model: Any, section: ModelConfig, *, dropout: bool) -> Any:
    """Put the configured adapter on a loaded model, and take its dropout away.

    Args:
        model: As `load_model` gives it.
        section: Says which adapter.
        dropout: Whether the model's own dropout stays.
    """
    if section.peft is not None:
        from peft import get_peft_model

        from backends.local.adapters import keep_in_float32, lora_config

        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            model = get_peft_model(model, lora_config(section.peft))
        keep_in_float32(model, section.peft)
        model.enable_input_require_grads()
    if not dropout:
        disable_dropout(model)
    return model


def disable_dropout(model: nn.Module) -> None:
    """Set every dropout of a model to 0, those included that modules apply by a number."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in [*vars(module).items()]:
            if isinstance(value, float) and "drop" in name:  # attention_dropout, layerdrop …
                setattr(module, name, 0.0)


def make_reference(model: nn.Module, loss_fn: Objective | str) -> nn.Module | None:
    """A frozen copy of the model as it is now, where the loss has a KL term that needs one."""
    if not getattr(loss_fn, "kl_coef", 0.0):
        return None
    if hasattr(model, "peft_config"):
        return None
    reference = copy.deepcopy(model).eval()
    return reference.requires_grad_(False)


def _section(name: str) -> ModelConfig:
    return ModelConfig(name_or_path=name)
