"""A LoRA adapter's weights, of a model that stands in one process or is cut up over several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

from retrain.errors import ConfigError

_NAME = "default"
"""peft's name of the only adapter; it stands in the model's names and not in a file's."""

_BASE = "base_model.model."
"""What peft puts before the names of the model that it has wrapped."""


def has_adapter(model: Any) -> bool:
    """Whether peft has put an adapter on the model."""
    return hasattr(model, "peft_config")


def load_adapter(model: Any, folder: Path) -> None:
    """Put a folder's adapter on a model, whichever number of processes holds it.

    Raises:
        ConfigError: It is another adapter.
    """
    from peft import load_peft_weights

    new: Mapping[str, Tensor] = load_peft_weights(str(folder), device="cpu")
    own = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    wanted = {_in_file(name): name for name in own}
    wrong = {*new} ^ {*wanted} or {n for n in new if new[n].shape != own[wanted[n]].shape}
    if wrong:
        raise ConfigError(f"{folder}: is of another adapter: weights differ in {min(wrong)}")
    named: dict[str, Any] = {wanted[name]: weight for name, weight in new.items()}
    options = StateDictOptions(full_state_dict=True, strict=False)
    set_model_state_dict(model, named, options=options)


def merged(model: Any, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the base with the adapter added, under the base's own names.

    W + s B A, summed in float32; s is alpha / r, or alpha / sqrt(r). Source: Hu et al. 2021, "LoRA"
    (arXiv:2106.09685), section 4.1; rank-stabilised after Kalajdzievski 2023 (arXiv:2312.03732).

    Args:
        model: The model with its adapter, on linear layers; gives the scale.
        whole: All its weights, gathered.
    """
    found = {
        name.removeprefix(_BASE).replace(".base_layer.", "."): weight
        for name, weight in whole.items()
        if ".lora_" not in name
    }
    for path, module in model.named_modules():
        if _NAME not in getattr(module, "lora_A", {}):
            continue
        down, up = (whole[f"{path}.lora_{side}.{_NAME}.weight"].float() for side in "AB")
        added = (up @ down) * module.scaling[_NAME]
        name = f"{path.removeprefix(_BASE)}.weight"
        base = found[name]
        # a Conv1D's weight is transposed
        found[name] = (base.float() + (added.T if module.fan_in_fan_out else added)).to(base.dtype)
    return found


def _in_file(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != _NAME)
