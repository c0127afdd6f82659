"""A model's shape without its weights: its configuration, built on torch's meta device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig
from transformers.pytorch_utils import Conv1D

from retrain.config import ModelConfig
from retrain.engine.transformers_loading import model_class, weight_type

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """A linear layer that an adapter can stand on.

    Attributes:
        path: Where it stands in the model ("model.layers.0.mlp.up_proj").
        inputs: Numbers in.
        outputs: Numbers out.
    """

    path: str
    inputs: int
    outputs: int

    @property
    def name(self) -> str:
        """The last part of its path, as `model.peft.target_modules` names it."""
        return self.path.rpartition(".")[2]

    @property
    def parameters(self) -> int:
        """Numbers in its weight."""
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """What is known of a model before its weights are read.

    Attributes:
        config: Its configuration, of the text part.
        parameters: All its numbers, tied ones once.
        linear: Its linear layers but the head.
        head: The head's path; "" where there is none.
        qk_norm: Whether queries and keys are normalised.
    """

    config: Any
    parameters: int
    linear: tuple[LinearLayer, ...]
    head: str
    qk_norm: bool


ReadOutline = Callable[[ModelConfig], ModelOutline | None]
"""Gives the outline of the model that a `model:` section names."""


def read_outline(model: ModelConfig) -> ModelOutline | None:
    """Build the model that `model:` names without weights; None where it cannot be built.

    Why it cannot is left to loading it, which says so.
    """
    options = {"trust_remote_code": model.trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(model.name_or_path, revision=model.revision, **options)
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            built = model_class(config).from_config(config, dtype=weight_type(model), **options)
    except _UNREADABLE:
        return None
    return outline(built)


class Outlines:
    """`read_outline`, asked once for each model: for a large one it is most of a plan's time."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._read: dict[tuple[Any, ...], ModelOutline | None] = {}

    def __call__(self, model: ModelConfig) -> ModelOutline | None:
        """The outline of the model that `model:` names; None where it cannot be built."""
        key = (model.name_or_path, model.revision, model.trust_remote_code, weight_type(model))
        if key not in self._read:
            self._read[key] = read_outline(model)
        return self._read[key]


def outline(model: Any) -> ModelOutline:
    """The outline of a built model."""
    head = model.get_output_embeddings()
    modules = dict(model.named_modules())
    return ModelOutline(
        config=model.config.get_text_config(),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        linear=tuple(
            LinearLayer(path, *_shape(module))
            for path, module in modules.items()
            if isinstance(module, nn.Linear | Conv1D) and module is not head
        ),
        head=next((path for path, module in modules.items() if module is head), ""),
        qk_norm=any(path.endswith(".q_norm") for path in modules),
    )


def _shape(module: nn.Module) -> tuple[int, int]:
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    weight: Any = module.weight  # of a Conv1D, which is a transposed linear layer
    return int(weight.shape[0]), int(weight.shape[1])
