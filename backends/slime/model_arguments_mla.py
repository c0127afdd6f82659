"""Model arguments of multi-head latent attention: DeepSeek-V3 and what follows it."""

from __future__ import annotations

from backends.slime.model_arguments_dense import Arguments, decoder, refusal
from backends.slime.model_arguments_moe import shared_experts, sigmoid_router
from backends.slime.model_config import ModelConfigFile

_MEGATRON_YARN = {"beta_fast": 32, "beta_slow": 1}
"""YaRN's bounds, which Megatron has no option for."""


def deepseek_arguments(config: ModelConfigFile) -> Arguments:
    """DeepSeek-V3 and R1, Moonlight and Kimi-K2."""
    return {
        **_latent_attention(config),
        **_yarn(config),
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        **sigmoid_router(config, experts="n_routed_experts"),
        **shared_experts(config),
    }


def glm4_moe_lite_arguments(config: ModelConfigFile) -> Arguments:
    """GLM-4.7-Flash."""
    if config.rope_type != "default":
        raise refusal(config, f"rope_scaling of type {config.rope_type!r}")
    return {
        **_latent_attention(config),
        "add_qkv_bias": True,
        "no_position_embedding": True,
        "make_vocab_size_divisible_by": 64,
        **sigmoid_router(config, experts="n_routed_experts"),
        **shared_experts(config),
    }


def yarn_notes(config: ModelConfigFile) -> list[str]:
    """What Megatron's YaRN cannot be told."""
    if config.rope_type != "yarn":
        return []
    return [
        f"rope_scaling says {key} {config.rope[key]:g}, and Megatron's YaRN takes {fixed}: it has "
        "no option for it, so that long contexts are rotated differently than by the engine"
        for key, fixed in _MEGATRON_YARN.items()
        if config.rope.get(key, fixed) != fixed
    ]


def _latent_attention(config: ModelConfigFile) -> Arguments:
    base = decoder(config)
    base.pop("group_query_attention", None)
    base.pop("num_query_groups", None)
    return {
        **base,
        "kv_channels": config.need("qk_nope_head_dim"),
        "multi_latent_attention": True,
        "q_lora_rank": config.get("q_lora_rank"),
        "kv_lora_rank": config.need("kv_lora_rank"),
        "qk_head_dim": config.need("qk_nope_head_dim"),
        "qk_pos_emb_head_dim": config.need("qk_rope_head_dim"),
        "v_head_dim": config.need("v_head_dim"),
        "qk_layernorm": True,
        "no_rope_fusion": True,
    }


def _yarn(config: ModelConfigFile) -> Arguments:
    if config.rope_type == "default":
        return {"rotary_scaling_factor": 1.0}
    if config.rope_type != "yarn":
        raise refusal(config, f"rope_scaling of type {config.rope_type!r}: Megatron's MLA has YaRN")
    return {
        "rotary_scaling_factor": float(config.rope["factor"]),
        "max_position_embeddings": config.rope.get("original_max_position_embeddings", 4096),
    }
