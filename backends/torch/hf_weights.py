"""Weights into and out of Hugging Face folders: whole models, and adapters alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.tensor import DTensor

from backends.torch.ranks import Ranks
from retrain.engine.transformers_loading import quiet_transformers
from retrain.engine.transformers_weights import put_weights, read_weights
from retrain.errors import ConfigError

_ADAPTER = "adapter_config.json"


def write_weights(model: Any, folder: Path, ranks: Ranks, tokenizer: Any = None) -> None:
    """Write a model's weights; of one with an adapter, the adapter's.

    Every process calls it: gathering sharded weights takes them all. The first one writes.

    Args:
        model: The model.
        folder: Where to write; it exists.
        ranks: Who holds the weights.
        tokenizer: Written beside them; None leaves it out.
    """
    whole = _gathered(model) if is_sharded(model) else None
    if not ranks.first:
        return
    with quiet_transformers():
        model.save_pretrained(folder, state_dict=whole)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)


def load_weights(model: Any, folder: Path) -> None:
    """Put a folder's weights into a model; all of them, or none.

    Raises:
        ConfigError: They cannot be read, or are of another model.
    """
    adapter = (folder / _ADAPTER).is_file()
    if adapter != hasattr(model, "peft_config"):
        has, wants = ("an adapter", "none") if adapter else ("no adapter", "one")
        raise ConfigError(f"{folder}: has {has}, and the model {wants}; see model.peft")
    if adapter:
        _load_adapter(model, folder)
    elif is_sharded(model):
        _load_sharded(model, folder)
    else:
        put_weights(model, read_weights(folder, model))


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP has cut the model up."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _gathered(model: nn.Module) -> dict[str, Any]:
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_model_state_dict(model, options=options))


def _load_sharded(model: Any, folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    with quiet_transformers():
        whole = AutoModelForCausalLM.from_pretrained(
            folder, dtype=next(model.parameters()).dtype, use_safetensors=True
        )
    new: Mapping[str, Tensor] = whole.state_dict()
    own = model.state_dict()
    wrong = {*new} ^ {*own} or {name for name in own if new[name].shape != own[name].shape}
    if wrong:
        raise ConfigError(f"{folder}: is of another model: weights differ in {min(wrong)}")
    set_model_state_dict(model, dict(new), options=StateDictOptions(full_state_dict=True))


def _load_adapter(model: Any, folder: Path) -> None:
    from peft import load_peft_weights, set_peft_model_state_dict

    new = load_peft_weights(str(folder), device="cpu")
    outcome = set_peft_model_state_dict(model, new)
    if outcome.unexpected_keys:
        raise ConfigError(
            f"{folder}: is of another adapter: {min(outcome.unexpected_keys)} is not in the model"
        )
