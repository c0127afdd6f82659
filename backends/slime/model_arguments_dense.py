"""Model arguments of dense transformers: what every decoder shares, and each family's own."""

from __future__ import annotations

from typing import Any

from backends.slime.model_config import ModelConfigFile
from retrain.errors import ConfigError

Arguments = dict[str, Any]
"""Option to value."""

_MEGATRON_LLAMA3_ROPE = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""What Megatron's `--use-rope-scaling` fixes; only the factor is an argument."""

_GPT_MODEL_FACTOR = 8.0
"""Megatron's GPTModel stretches by this where nobody tells it."""


def llama_arguments(config: ModelConfigFile) -> Arguments:
    """Llama 2, 3, 3.1 and 3.2, and what shares their architecture."""
    _refuse_where(config, "attention_bias", "mlp_bias")
    return {**decoder(config), **_rope_scaling(config)}


def qwen2_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen2 and Qwen2.5: biases on queries, keys and values."""
    refuse_window(config)
    return {**decoder(config), **plain_rope(config), "add_qkv_bias": True}


def qwen3_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen3: queries and keys are normalised."""
    refuse_window(config)
    _refuse_where(config, "attention_bias")
    return {**decoder(config), **plain_rope(config), "qk_layernorm": True}


def mimo_arguments(config: ModelConfigFile) -> Arguments:
    """MiMo: Qwen2 with a layer that predicts further tokens."""
    further = config.get("num_nextn_predict_layers", 0)
    return {**qwen2_arguments(config), "mtp_num_layers": further or None}


def glm4_arguments(config: ModelConfigFile) -> Arguments:
    """GLM-4-0414: half of each head is rotated, and norms stand after attention and MLP too."""
    return {
        "spec": ["slime_plugins.models.glm4", "get_glm_spec"],
        **decoder(config),
        **plain_rope(config),
        "add_qkv_bias": bool(config.get("attention_bias", True)),
        "post_self_attn_layernorm": True,
        "post_mlp_layernorm": True,
        "rotary_interleaved": True,
        "rotary_percent": rotary_share(config, 0.5),
        "no_rope_fusion": True,
    }


def qwen3_5_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen3.5: three of four layers attend linearly, the others have a gate."""
    return {
        "spec": ["slime_plugins.models.qwen3_5", "get_qwen3_5_spec"],
        **decoder(config),
        **gated_attention(config),
    }


def gated_attention(config: ModelConfigFile) -> Arguments:
    """What Qwen3-Next and Qwen3.5 share."""
    return {
        **plain_rope(config),
        "qk_layernorm": True,
        "use_gated_attention": True,
        "attention_output_gate": True,
        "apply_layernorm_1p": True,
        "rotary_percent": rotary_share(config, 0.25),
    }


def decoder(config: ModelConfigFile) -> Arguments:
    """What every decoder has here.

    Raises:
        ConfigError: Its activation is not SiLU.
    """
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise refusal(config, f"hidden_act {activation!r}: Megatron's --swiglu is SiLU")
    return {
        "num_layers": config.layers,
        "hidden_size": config.need("hidden_size"),
        "ffn_hidden_size": _ffn(config),
        "num_attention_heads": config.heads,
        **_key_heads(config),
        "kv_channels": config.head_dim,
        "swiglu": True,
        "disable_bias_linear": True,
        "normalization": "RMSNorm",
        "norm_epsilon": config.get("rms_norm_eps", 1e-6),
        "position_embedding_type": "rope",
        "rotary_base": config.rope_theta,
        "vocab_size": config.need("vocab_size"),
        "untie_embeddings_and_output_weights": not config.get("tie_word_embeddings", False),
    }


def plain_rope(config: ModelConfigFile) -> Arguments:
    """Nothing, for a model whose rotation is plain.

    Raises:
        ConfigError: The model stretches its positions.
    """
    if config.rope_type not in ("default", "mrope"):
        kind = config.rope_type
        raise refusal(
            config,
            f"rope_scaling of type {kind!r}: slime's Megatron arguments know plain positions for "
            "this architecture",
        )
    return {}


def refuse_window(config: ModelConfigFile) -> None:
    """Refuse attention that is limited to a window."""
    if config.get("use_sliding_window", False):
        raise refusal(config, "use_sliding_window: slime's Megatron arguments know full attention")


def refusal(config: ModelConfigFile, reason: str) -> ConfigError:
    """A model that Megatron's arguments cannot express."""
    return ConfigError(
        f"model.name_or_path: this {config.model_type} model has {reason}; it cannot be trained "
        "on slime"
    )


def _ffn(config: ModelConfigFile) -> int:
    """The width of a dense MLP; a model of experts alone need not name one."""
    width = config.get("intermediate_size") or config.get("moe_intermediate_size")
    return int(width or config.need("intermediate_size"))


def _key_heads(config: ModelConfigFile) -> Arguments:
    groups = int(config.get("num_key_value_heads", config.heads))
    if groups == config.heads:
        return {}
    return {"group_query_attention": True, "num_query_groups": groups}


def _rope_scaling(config: ModelConfigFile) -> Arguments:
    if config.rope_type != "llama3":
        return plain_rope(config)
    for key, fixed in _MEGATRON_LLAMA3_ROPE.items():
        if config.rope.get(key, fixed) != fixed:
            value = config.rope[key]
            raise refusal(config, f"{key} {value} in rope_scaling: Megatron fixes it at {fixed}")
    return {"use_rope_scaling": True, "rope_scaling_factor": float(config.rope["factor"])}


def llama3_notes(config: ModelConfigFile) -> list[str]:
    """What slime loses of Llama's stretched positions.

    slime's model provider hands `--use-rope-scaling` to Megatron's GPTModel, not the factor.
    """
    factor = config.rope.get("factor", _GPT_MODEL_FACTOR)
    if config.rope_type != "llama3" or factor == _GPT_MODEL_FACTOR:
        return []
    return [
        f"rope_scaling has factor {factor:g}, and slime's model provider builds Megatron's model "
        f"with {_GPT_MODEL_FACTOR:g} whatever --rope-scaling-factor says: the trainer's logprobs "
        "differ from the engine's (watch train_rollout_logprob_abs_diff)"
    ]


def _refuse_where(config: ModelConfigFile, *keys: str) -> None:
    for key in keys:
        if config.get(key, False):
            raise refusal(config, f"{key}: slime does not load these biases")


def rotary_share(config: ModelConfigFile, default: float) -> float:
    """The share of a head that is rotated; the default where the file does not say."""
    stated = "partial_rotary_factor" in config.rope or config.get("partial_rotary_factor")
    return config.rotary_share if stated else default
