"""Weights into and out of Hugging Face folders: whole models, and adapters alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.tensor import DTensor

from backends.local.adapters import ADAPTER_CONFIG
from backends.torch.processes.ranks import Ranks
from backends.torch.saving.adapter_weights import has_adapter, load_adapter, merged
from retrain.engine.transformers_loading import quiet_transformers
from retrain.engine.transformers_weights import put_weights, read_weights
from retrain.errors import ConfigError


def write_weights(
    model: Any, folder: Path, ranks: Ranks, tokenizer: Any = None, *, merge: bool = False
) -> None:
    """Write a model's weights; of one with an adapter, the adapter's, or both merged.

    Every process calls it: gathering sharded weights takes them all. The first one writes.

    Args:
        model: The model.
        folder: Where to write; it exists.
        ranks: Who holds the weights.
        tokenizer: Written beside them; None leaves it out.
        merge: Write base and adapter as one model, as inference servers load it.
    """
    adapted = has_adapter(model)
    merge = merge and adapted
    gathered = _gathered(model, adapter=adapted and not merge) if is_sharded(model) else None
    if ranks.first:
        written = model.get_base_model() if merge else model
        weights = merged(model, gathered or model.state_dict()) if merge else gathered
        with quiet_transformers():
            written.save_pretrained(folder, state_dict=weights)
            if tokenizer is not None:
                tokenizer.save_pretrained(folder)
    ranks.wait_for_first()


def load_weights(model: Any, folder: Path) -> None:
    """Put a folder's weights into a model; all of them, or none.

    Raises:
        ConfigError: They cannot be read, or are of another model.
    """
    adapter = (folder / ADAPTER_CONFIG).is_file()
    if adapter != has_adapter(model):
        has, wants = ("an adapter", "none") if adapter else ("no adapter", "one")
        raise ConfigError(f"{folder}: has {has}, and the model {wants}; see model.peft")
    if adapter:
        load_adapter(model, folder)
        return
    new = read_weights(folder, model)
    if is_sharded(model):
        set_model_state_dict(
            model, dict[str, Any](new), options=StateDictOptions(full_state_dict=True)
        )
    else:
        put_weights(model, new)


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP has cut the model up."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _gathered(model: nn.Module, *, adapter: bool) -> dict[str, Any]:
    """All weights, or those that are trained, whole on the first process; tied ones once."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=adapter)
    found = get_model_state_dict(model, options=options)
    once = dict(model.named_parameters(remove_duplicate=True))
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - {*once}
    return {name: weight for name, weight in found.items() if name not in tied}
