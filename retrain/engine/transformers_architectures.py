"""Which models can run on KV slots, what each of their layers sees, and how many slots fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PretrainedConfig

from retrain.errors import ConfigError

FULL = "full_attention"
SLIDING = "sliding_attention"

_ONE_KIND = frozenset(
    {
        "arcee",
        "cohere",
        "ernie4_5",
        "gemma",
        "glm",
        "glm4",
        "glm4_moe",
        "granite",
        "granitemoe",
        "hunyuan_v1_dense",
        "llama",
        "mistral",
        "mixtral",
        "nemotron",
        "olmo",
        "olmo2",
        "olmoe",
        "phi",
        "phi3",
        "qwen3_moe",
        "seed_oss",
        "stablelm",
        "starcoder2",
    }
)
_KIND_PER_LAYER = frozenset(
    {
        "cohere2",
        "exaone4",
        "gemma2",
        "gemma3_text",
        "gpt_oss",
        "olmo3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "smollm3",
    }
)
_IMPLEMENTATIONS = ("sdpa", "eager")


def why_no_slots(config: PretrainedConfig) -> str | None:
    """Say why a model cannot run on KV slots.

    Args:
        config: The model's configuration.

    Returns:
        The reason, or None where it can. Such a model prefills its whole history every turn.
    """
    known = sorted(_ONE_KIND | _KIND_PER_LAYER)
    if config.model_type not in known:
        return f"model type {config.model_type!r} is not one of {', '.join(known)}"
    attention = config._attn_implementation
    if attention not in _IMPLEMENTATIONS:
        return f"attention {attention!r} takes no mask per row; load with attn_implementation=sdpa"
    if getattr(config, "use_bidirectional_attention", None):
        return "its attention is bidirectional"
    kinds = set(getattr(config, "layer_types", None) or ()) - {FULL, SLIDING}
    return f"it has layers of kind {', '.join(sorted(kinds))}" if kinds else None


def attention_windows(config: PretrainedConfig) -> Mapping[str, int | None]:
    """What each kind of layer sees, for a model that runs on slots.

    Args:
        config: The model's configuration.

    Returns:
        By kind of layer, how many of the newest tokens a token sees, itself included; None is all.
    """
    window = getattr(config, "sliding_window", None)
    if config.model_type in _ONE_KIND:
        return {FULL if window is None else SLIDING: window}
    return {kind: window if kind == SLIDING else None for kind in sorted(set(config.layer_types))}


def layer_kinds(config: PretrainedConfig) -> Sequence[str]:
    """The kind of each layer of a model that runs on slots, as `attention_windows` names them."""
    if config.model_type in _ONE_KIND:
        (kind,) = attention_windows(config)
        return [kind] * int(config.num_hidden_layers)
    return list(config.layer_types[: config.num_hidden_layers])


def slot_bytes(config: PretrainedConfig, max_seq_len: int, dtype: torch.dtype) -> int:
    """The size of one KV slot at its longest.

    2 (keys and values) x layers x key-value heads x head size x max_seq_len x bytes per number.
    Layers with a sliding window count in full: a slot keeps every token, so that a history can be
    cut back to any prefix.

    Args:
        config: The model's configuration.
        max_seq_len: Most tokens of an episode.
        dtype: What keys and values are kept in: the autocast type where there is one, else the
            model's.

    Returns:
        Bytes.
    """
    return 2 * max_seq_len * dtype.itemsize * _numbers_per_token(config.get_text_config())


def slots_that_fit(
    model_config: PretrainedConfig, max_seq_len: int, bytes_budget: int, dtype: torch.dtype
) -> int:
    """How many KV slots a memory budget holds: budget // `slot_bytes`.

    Buffers grow with what is used, one layer after another; while a layer grows, its old buffer is
    still there, so leave 1 / layers of the budget free on top.

    Args:
        model_config: The model's configuration.
        max_seq_len: Most tokens of an episode.
        bytes_budget: What the KV buffers may take, in bytes.
        dtype: What keys and values are kept in.

    Returns:
        At least 1.

    Raises:
        ConfigError: Not even one slot fits; the message holds the arithmetic.
    """
    one = slot_bytes(model_config, max_seq_len, dtype)
    if one > bytes_budget:
        per_token = one // max_seq_len
        raise ConfigError(
            f"one KV slot of {max_seq_len} tokens x {per_token:,} bytes = {one:,} bytes does not "
            f"fit in the budget of {bytes_budget:,}: allow shorter episodes "
            f"(at most {bytes_budget // per_token} tokens) or give more memory"
        )
    return bytes_budget // one


def _numbers_per_token(config: Any) -> int:
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(config.num_hidden_layers * kv_heads * head_dim)
