"""LoRA and QLoRA: what `model.peft` asks for, on the layers that the model has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from backends.base import Problem, Severity
from backends.local.outline import LinearLayer, ModelOutline
from retrain.config import PeftConfig, RunConfig
from retrain.config.peft import ALL_LINEAR
from retrain.errors import ConfigError, nearest

ADAPTER_CONFIG = "adapter_config.json"
"""What peft writes beside an adapter's weights."""

_TARGETS = "model.peft.target_modules"
_SCALING = ("r", "lora_alpha", "use_rslora")


def adapter_problems(config: RunConfig, outline: ModelOutline | None) -> list[Problem]:
    """What `model.peft` asks for and cannot have.

    Args:
        config: The run.
        outline: The model; None leaves its layers unchecked.
    """
    peft = config.model.peft
    if peft is None:
        return []
    rl = config.algorithm.name != "sft"
    quantised = peft.bits is not None
    refused = {
        "model.peft": (
            find_spec("peft") is None,
            "needs the package peft; install it with: pip install 'retrain[trl]'",
        ),
        "model.peft.bits": (
            quantised and find_spec("bitsandbytes") is None,
            "needs the package bitsandbytes; install it with: pip install 'retrain[qlora]'",
        ),
        "model.peft.lora_dropout": (
            rl and peft.lora_dropout > 0,
            f"is {peft.lora_dropout:g}, and dropout would make the trainer's logprobs differ from "
            "the engine's; set it to 0 (in stages, under the stage's model.peft)",
        ),
    }
    found = [Problem(key, message) for key, (wrong, message) in refused.items() if wrong]
    faults = [] if outline is None else target_faults(peft, outline)
    found += [Problem(_TARGETS, fault) for fault in faults]
    if rl and peft.bits == 8 and config.algorithm.hyperparameters.importance_correction == "none":
        text = (
            "LLM.int8() rounds by what stands in the batch, so the trainer's logprobs differ from "
            "the engine's; use 4, or set importance_correction: tis"
        )
        found.append(Problem("model.peft.bits", text, Severity.WARNING))
    return found


def target_faults(peft: PeftConfig, outline: ModelOutline) -> list[str]:
    """Say of each target that matches no linear layer which layers there are."""
    names = sorted({layer.name for layer in outline.linear})
    there = ", ".join(names) or "none"
    faults = []
    for target in peft.target_modules:
        if _matches(target, outline.head):
            faults.append(
                f"{target!r} is the head: TRL reads its weight directly, so an adapter on it "
                f"would never be trained; choose among {there}"
            )
        elif not _on(target, outline.linear):
            hint = nearest(target, names) if names else "it has none"
            faults.append(
                f"{target!r} matches no linear layer of the model; {hint} There are: {there}"
            )
    return faults


def adapted_layers(peft: PeftConfig, outline: ModelOutline) -> tuple[LinearLayer, ...]:
    """The layers that get an adapter."""
    return tuple(
        layer
        for layer in outline.linear
        if any(_on(target, (layer,)) for target in peft.target_modules)
    )


def lora_config(peft: PeftConfig | None) -> Any:
    """The section as peft's own `LoraConfig`; None for none."""
    if peft is None:
        return None
    from peft import LoraConfig

    every = peft.target_modules == (ALL_LINEAR,)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=peft.r,
        lora_alpha=peft.lora_alpha,
        lora_dropout=peft.lora_dropout,
        use_rslora=peft.use_rslora,
        target_modules=ALL_LINEAR if every else list(peft.target_modules),
        bias="none",
    )


def keep_in_float32(model: Any, peft: PeftConfig | None) -> None:
    """Undo TRL's cast of a quantised model's adapters: in bfloat16, updates of 1e-6 vanish."""
    if peft is None:
        return
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype is torch.bfloat16:
            parameter.data = parameter.data.float()


def require_same_adapter(peft: PeftConfig | None, checkpoint: Path) -> None:
    """Refuse to go on from a checkpoint whose adapter is not the configured one.

    Raises:
        ConfigError: Only one of them has an adapter, or they scale it differently.
    """
    file = checkpoint / ADAPTER_CONFIG
    if peft is None or not file.exists():
        if (peft is None) != (not file.exists()):
            has, wants = ("no adapter", "one") if peft else ("an adapter", "none")
            raise ConfigError(
                f"model.peft: {checkpoint} has {has}, and the configuration wants {wants}; resume "
                "with the run's own configuration"
            )
        return
    saved = json.loads(file.read_text(encoding="utf-8"))
    for key in _SCALING:
        if saved[key] != getattr(peft, key):
            raise ConfigError(
                f"model.peft.{key}: is {getattr(peft, key)}, and {checkpoint} was trained with "
                f"{saved[key]}; resume with the run's own configuration"
            )


def _on(target: str, layers: Sequence[LinearLayer]) -> bool:
    if target == ALL_LINEAR:
        return bool(layers)
    return any(_matches(target, layer.path) for layer in layers)


def _matches(target: str, path: str) -> bool:
    """The rule of peft for a list of names."""
    return path == target or path.endswith(f".{target}")
