"""Megatron's model arguments, derived from a model's `config.json`.

slime keeps them by hand, in a shell script for each size of each model (`scripts/models/*.sh`); it
does not read them from the model. The derivation follows those scripts, and the tests hold it
against each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from backends.slime.model_arguments_dense import (
    Arguments,
    glm4_arguments,
    llama3_notes,
    llama_arguments,
    mimo_arguments,
    qwen2_arguments,
    qwen3_5_arguments,
    qwen3_arguments,
)
from backends.slime.model_arguments_mla import (
    deepseek_arguments,
    glm4_moe_lite_arguments,
    yarn_notes,
)
from backends.slime.model_arguments_moe import (
    glm4_moe_arguments,
    minimax_m2_arguments,
    qwen2_moe_arguments,
    qwen3_5_moe_arguments,
    qwen3_moe_arguments,
    qwen3_next_arguments,
)
from backends.slime.model_config import ModelConfigFile
from retrain.errors import ConfigError

FAMILIES: Mapping[str, Callable[[ModelConfigFile], Arguments]] = MappingProxyType(
    {
        "deepseek_v3": deepseek_arguments,
        "glm4": glm4_arguments,
        "glm4_moe": glm4_moe_arguments,
        "glm4_moe_lite": glm4_moe_lite_arguments,
        "kimi_k2": deepseek_arguments,
        "llama": llama_arguments,
        "mimo": mimo_arguments,
        "minimax_m2": minimax_m2_arguments,
        "qwen2": qwen2_arguments,
        "qwen2_moe": qwen2_moe_arguments,
        "qwen3": qwen3_arguments,
        "qwen3_5": qwen3_5_arguments,
        "qwen3_5_moe": qwen3_5_moe_arguments,
        "qwen3_moe": qwen3_moe_arguments,
        "qwen3_next": qwen3_next_arguments,
    }
)
"""`model_type` to its derivation; slime loads each of these from a Hugging Face folder."""

BY_HAND = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "normalization",
    "position_embedding_type",
    "vocab_size",
)
"""What must be set, with the prefix slime_, for an architecture that is not known here."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def model_arguments(
    config: ModelConfigFile, given: Mapping[str, Any] = MappingProxyType({})
) -> Arguments:
    """Megatron's arguments for a model.

    Args:
        config: The model's `config.json`.
        given: The `slime_X` options; with all of `BY_HAND` among them, an architecture that is not
            known here is left to them.

    Raises:
        ConfigError: The architecture is not known here, or the model uses a part that Megatron's
            arguments cannot express.
    """
    derive = FAMILIES.get(config.model_type)
    if derive is not None:
        return derive(config)
    missing = [name for name in BY_HAND if name not in given]
    if not missing:
        return {}
    raise ConfigError(
        f"model.name_or_path: no rule gives Megatron's arguments for the architecture "
        f"{config.model_type!r} (known: {', '.join(FAMILIES)}); set them by hand: at least "
        f"{', '.join('slime_' + name for name in missing)}, and slime_ref_load for weights that "
        "slime's tools/convert_hf_to_torch_dist.py has converted; slime's scripts/models/*.sh show "
        "what further models need"
    )


def model_notes(config: ModelConfigFile) -> list[str]:
    """What of the model slime and Megatron do otherwise than the engine."""
    return [*llama3_notes(config), *yarn_notes(config)]
