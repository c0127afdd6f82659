"""New weights for a loaded model from a folder: all of them, or none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer

from retrain.engine.transformers_loading import model_class, quiet_transformers
from retrain.errors import ConfigError
from retrain.model_files import STRUCTURE, structure_difference

_UNREADABLE = (OSError, ValueError, RuntimeError, SafetensorError)

_ONE_AT_A_TIME = threading.Lock()
"""While transformers loads a model, it unties the weights of every model of the process; where two
threads load at once, they stay untied."""


def read_weights(folder: Path, model: Any) -> dict[str, Tensor]:
    """Read weights of the same model from a folder of safetensors; nothing in it is executed.

    Args:
        folder: A Hugging Face folder; without a config.json it is read as the model's own kind.
        model: The model that the weights are for.

    Returns:
        By name, every weight of the model, on the CPU and in its type.

    Raises:
        ConfigError: They cannot be read, are of another model, are not all there, or are not
            finite; the message says which.
    """
    config = _config_of(folder, model)
    try:
        with _ONE_AT_A_TIME, quiet_transformers():
            read: Any = model_class(config).from_pretrained(
                folder,
                config=config,
                dtype=next(model.parameters()).dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except _UNREADABLE as error:
        raise _unreadable(folder, error) from error
    loaded, info = read
    for kind, names in (("missing", info["missing_keys"]), ("too many", info["unexpected_keys"])):
        if names:
            raise ConfigError(f"{folder}: weights are {kind}: {_some(names)}")
    new: dict[str, Tensor] = loaded.state_dict()
    _check(folder, new, model.state_dict())
    return new


def put_weights(model: nn.Module, new: Mapping[str, Tensor]) -> bool:
    """Put weights that `read_weights` has read into the model.

    Returns:
        Whether any of them differs from what the model had.
    """
    own = model.state_dict()
    arrived = {name: new[name].to(weight.device) for name, weight in own.items()}
    changed = any(not torch.equal(weight, arrived[name]) for name, weight in own.items())
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(arrived[name])
    return changed


def check_vocabulary(folder: Path, ours: Mapping[str, int] | None) -> None:
    """Refuse a folder whose tokenizer is another one; a folder without a tokenizer passes.

    Args:
        folder: A Hugging Face folder.
        ours: Tokens and their ids; None checks nothing.

    Raises:
        ConfigError: The vocabularies differ.
    """
    if ours is None or not (folder / "tokenizer.json").is_file():
        return
    try:
        theirs: dict[str, int] = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        ).get_vocab()
    except Exception as error:  # a damaged tokenizer.json raises a bare Exception
        raise _unreadable(folder, error) from error
    if theirs != ours:
        differing = [t for t in {*theirs, *ours} if theirs.get(t) != ours.get(t)]
        raise ConfigError(
            f"{folder}: its tokenizer differs from the served model's in {len(differing)} tokens, "
            f"such as {min(differing)!r}; weights of another vocabulary are not loaded"
        )


def _config_of(folder: Path, model: Any) -> Any:
    if not (folder / "config.json").is_file():
        return model.config
    try:
        theirs = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except _UNREADABLE as error:
        raise _unreadable(folder, error) from error
    difference = structure_difference(_structure(theirs), _structure(model.config))
    if difference:
        raise ConfigError(f"{folder}: is of another model: {difference}")
    return theirs


def _structure(config: Any) -> dict[str, Any]:
    text = config.get_text_config()
    named = {name: getattr(text, name, None) for name in STRUCTURE}
    return {name: value for name, value in named.items() if value is not None}


def _check(folder: Path, new: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    if wrong := {*new} ^ {*own}:
        raise ConfigError(f"{folder}: is of another model: weights differ in {_some(wrong)}")
    for name, tensor in new.items():
        if tensor.shape != own[name].shape:
            shapes = f"{list(tensor.shape)}, the model's {list(own[name].shape)}"
            raise ConfigError(f"{folder}: is of another model: its {name} is {shapes}")
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ConfigError(f"{folder}: {name} is not finite: its training has diverged")
    first: dict[int, str] = {}
    for name, tensor in own.items():
        place = tensor.data_ptr()  # 0 of one that is empty, or cut up over processes
        twin = first.setdefault(place, name) if place else name
        if twin != name and not torch.equal(new[name], new[twin]):
            raise ConfigError(f"{folder}: {name} and {twin} differ, and are one in the model")


def _unreadable(folder: Path, error: Exception) -> ConfigError:
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"{folder}: no weights can be read ({reason})")


def _some(names: Any) -> str:
    shown = sorted(names)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
