"""How much memory a run takes, from the model's configuration alone.

Everything stands on one device: the in-process engine and the trainer share the weights. Symbols:
P parameters, R rows of a micro-batch, T tokens of a row, L layers, H hidden size, Q and K sizes of
all queries and of all keys, I size inside the MLP, V vocabulary, m bytes of a weight, w bytes of a
number that matrices are multiplied in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from backends.local.activations import activation_bytes, embedding_numbers
from backends.local.outline import LinearLayer, ModelOutline
from retrain.engine.transformers_architectures import slot_bytes, why_no_slots

_OPTIMIZER_BYTES: Mapping[str, float] = {
    "sgd": 0.0,
    "adafactor": 0.0,
    "adamw_bnb_8bit": 2.0,
    "adamw_8bit": 2.0,
    "paged_adamw_8bit": 2.0,
    "lion_8bit": 1.0,
    "lion_32bit": 4.0,
}
"""Optimizer state in bytes per trained number; any other is taken for AdamW, which has two moments
in the number's own type (Kingma and Ba, 2014)."""

_QUANTISED_BYTES: Mapping[int, float] = {4: 0.5 + 0.127 / 8, 8: 1.0}
"""Bytes of a quantised number. NF4 with quantised constants adds 0.127 bit (QLoRA, section 3)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is done with a model, as far as memory depends on it.

    Attributes:
        rows: R, rows of one forward and backward pass.
        row_tokens: T, tokens of the longest row, the prompt included.
        slots: KV slots of the in-process engine; 0 for supervised fine-tuning.
        slot_budget: Most bytes that the engine takes for them.
        weight_type: The type of the weights.
        autocast: What is computed in; None computes in the weights' own type.
        optimizer: The trainer's name of the optimizer.
        adapter: Layers with an adapter, and its rank; None trains every weight.
        bits: The frozen linear layers are kept in this many bits; None leaves their type.
        reference: A second model is held, for the KL divergence.
        checkpointing: Activations are computed again in the backward pass.
        cuda: It runs on a GPU.
        processes: How many share weights, gradients and optimizer (FSDP): each holds its part, and
            gathers the rest layer by layer.
    """

    rows: int
    row_tokens: int
    slots: int
    slot_budget: int
    weight_type: torch.dtype
    autocast: torch.dtype | None
    optimizer: str
    adapter: tuple[tuple[LinearLayer, ...], int] | None = None
    bits: int | None = None
    reference: bool = False
    checkpointing: bool = False
    cuda: bool = False
    processes: int = 1

    @property
    def computed(self) -> torch.dtype:
        """What matrices are multiplied in."""
        return self.autocast or self.weight_type


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by what they hold. Python, its libraries and the GPU's context come on top.

    Attributes:
        weights: P x m; of a quantised model, its linear layers in 4 or 8 bits.
        adapter: 4 x sum of r x (inputs + outputs) over the adapted layers (Hu et al., 2021).
        reference: P x m, where kl_coef > 0 trains without an adapter.
        gradients: One per trained number, in its type.
        optimizer: AdamW: two moments per trained number.
        update: AdamW on a GPU works on all weights at once and takes a copy (torch, `foreach`).
        gathered: Of weights that several processes share, those that one holds whole at a time.
        activations: What the backward pass needs; see `activation_bytes`.
        logits: The head in its backward pass, which every backend computes in its own way.
        kv_slots: 2 x L x K x tokens x w per slot; see `slot_bytes`.
    """

    weights: int
    adapter: int
    reference: int
    gradients: int
    optimizer: int
    update: int
    gathered: int
    activations: int
    logits: int
    kv_slots: int

    @property
    def peak(self) -> int:
        """The most that is held at once.

        Weights and optimizer stay. Rollouts hold KV slots, a backward pass activations and
        gradients, an optimizer step gradients and its copy; none of these meets another.
        """
        stays = self.weights + self.adapter + self.reference + self.optimizer
        backward = self.gradients + self.gathered + self.activations + self.logits
        return stays + max(self.kv_slots, backward, self.gradients + self.update)

    def as_mapping(self) -> dict[str, int]:
        """The parts that are not 0, and `peak`, in bytes."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**{name: size for name, size in parts.items() if size}, "peak": self.peak}


def estimate(outline: ModelOutline, work: Workload, logits: int = 0) -> MemoryEstimate:
    """Estimate the memory of a workload on a model.

    Args:
        outline: The model.
        work: What is done with it.
        logits: Bytes of the head in its backward pass.
    """
    width, share = work.weight_type.itemsize, work.processes
    adapter = adapter_parameters(work)
    numbers, each = (adapter, 4) if work.adapter else (outline.parameters, width)
    trained = numbers * each // share
    moments = _OPTIMIZER_BYTES.get(work.optimizer, 2.0 * each)
    whole = outline.parameters * width // share
    return MemoryEstimate(
        weights=_weight_bytes(outline, work) // share,
        adapter=adapter * 4 // share,
        reference=whole if work.reference and not work.adapter else 0,
        gradients=trained,
        optimizer=int(moments * numbers) // share,
        update=trained if work.cuda and work.optimizer == "adamw_torch" else 0,
        gathered=_gathered_bytes(outline, work) if share > 1 else 0,
        activations=activation_bytes(outline, work),
        logits=logits,
        kv_slots=_kv_bytes(outline, work),
    )


def adapter_parameters(work: Workload) -> int:
    """Trained numbers of the adapters: r x (inputs + outputs) each."""
    if work.adapter is None:
        return 0
    layers, rank = work.adapter
    return sum(rank * (layer.inputs + layer.outputs) for layer in layers)


def _weight_bytes(outline: ModelOutline, work: Workload) -> int:
    width = work.weight_type.itemsize
    if work.bits is None:
        return outline.parameters * width
    linear = sum(layer.parameters for layer in outline.linear)
    return int((outline.parameters - linear) * width + linear * _QUANTISED_BYTES[work.bits])


def _gathered_bytes(outline: ModelOutline, work: Workload) -> int:
    """Embedding and head, and two layers: one that is computed, and the next one."""
    ends = embedding_numbers(outline.config)
    layers = (outline.parameters - ends) / int(outline.config.num_hidden_layers)
    return int((ends + 2 * layers) * work.computed.itemsize)


def _kv_bytes(outline: ModelOutline, work: Workload) -> int:
    """KV slots at their longest; while a layer's buffer grows, its old one is still there."""
    config: Any = outline.config
    if not work.slots or why_no_slots(config) is not None:
        return 0
    one = slot_bytes(config, work.row_tokens, work.computed)
    slots = max(1, min(work.slots, work.slot_budget // one))
    layers = int(config.num_hidden_layers)
    return slots * one * (layers + 1) // layers
