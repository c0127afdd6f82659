"""Model arguments of mixtures of experts with ordinary attention."""

from __future__ import annotations

from itertools import groupby

from backends.slime.model_arguments_dense import (
    Arguments,
    decoder,
    gated_attention,
    plain_rope,
    qwen2_arguments,
    qwen3_arguments,
    rotary_share,
)
from backends.slime.model_config import ModelConfigFile


def qwen2_moe_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen1.5-MoE and Qwen2-MoE: some experts always answer, behind a gate."""
    return {
        **qwen2_arguments(config),
        **softmax_router(config, normalised=False),
        **_gated_shared_expert(config),
    }


def qwen3_moe_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen3-30B-A3B and its kind."""
    return {**qwen3_arguments(config), **softmax_router(config, normalised=False)}


def qwen3_next_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen3-Next: linear attention in three of four layers, and a shared expert."""
    return {
        "spec": ["slime_plugins.models.qwen3_next", "get_qwen3_next_spec"],
        **_gated_moe(config),
    }


def qwen3_5_moe_arguments(config: ModelConfigFile) -> Arguments:
    """Qwen3.5 with experts; the text model, images are not trained on."""
    return {"spec": ["slime_plugins.models.qwen3_5", "get_qwen3_5_spec"], **_gated_moe(config)}


def glm4_moe_arguments(config: ModelConfigFile) -> Arguments:
    """GLM-4.5 and GLM-4.6."""
    return {
        **decoder(config),
        **plain_rope(config),
        "add_qkv_bias": bool(config.get("attention_bias", False)),
        "qk_layernorm": bool(config.get("use_qk_norm", False)),
        "rotary_percent": rotary_share(config, 0.5),
        **sigmoid_router(config, experts="n_routed_experts"),
        **shared_experts(config),
    }


def minimax_m2_arguments(config: ModelConfigFile) -> Arguments:
    """MiniMax-M2: norms over all heads together, every layer with experts."""
    rotated = config.get("rotary_dim")
    share = rotated / config.head_dim if rotated else rotary_share(config, 0.5)
    return {
        "spec": ["slime_plugins.models.minimax_m2", "get_minimax_m2_layer_spec"],
        **decoder(config),
        **plain_rope(config),
        "qk_layernorm": True,
        "rotary_percent": share,
        "no_rope_fusion": True,
        **sigmoid_router(config, experts="num_local_experts"),
        "moe_router_load_balancing_type": ["none"],
        "moe_ffn_hidden_size": config.need("intermediate_size"),
    }


def softmax_router(config: ModelConfigFile, *, normalised: bool) -> Arguments:
    """A router that takes the softmax over the experts; the auxiliary loss is off.

    Where the chosen experts' weights are not normalised again, the softmax comes before the choice.

    Args:
        config: The model's file.
        normalised: Whether they are where the file has no `norm_topk_prob`.
    """
    return {
        **_experts(config, "num_experts"),
        "moe_router_score_function": "softmax",
        "moe_router_pre_softmax": not config.get(
            "norm_topk_prob", config.model_type != "qwen2_moe"
        ),
        "moe_layer_freq": layer_pattern(_sparse_layers(config)),
    }


def sigmoid_router(config: ModelConfigFile, *, experts: str) -> Arguments:
    """DeepSeek-V3's router: sigmoid scores and a bias for each expert, which training leaves alone.

    The bias is part of the policy that the engine has too; moved outside the gradient, the two
    would differ.
    """
    scale = float(config.get("routed_scaling_factor", 1.0))
    groups = int(config.get("n_group", 1))
    grouped = {
        "moe_router_num_groups": groups,
        "moe_router_group_topk": config.get("topk_group"),
    }
    return {
        **_experts(config, experts),
        "moe_router_score_function": "sigmoid",
        "moe_router_pre_softmax": True,
        "moe_router_enable_expert_bias": True,
        "moe_router_bias_update_rate": 0.0,
        "moe_router_load_balancing_type": ["seq_aux_loss"],
        **(grouped if groups > 1 else {}),
        **({"moe_router_topk_scaling_factor": scale} if scale != 1.0 else {}),
        "moe_layer_freq": layer_pattern(_first_dense(config)),
    }


def shared_experts(config: ModelConfigFile) -> Arguments:
    """Experts that answer every token."""
    count = int(config.get("n_shared_experts", 0))
    if not count:
        return {}
    width = int(config.need("moe_intermediate_size"))
    return {"moe_shared_expert_intermediate_size": count * width}


def layer_pattern(layers: list[int]) -> str:
    """Which layers have experts, in Megatron's words: `[0]*3+[1]*58`."""
    return "+".join(f"[{kind}]*{len(list(run))}" for kind, run in groupby(layers))


def _gated_moe(config: ModelConfigFile) -> Arguments:
    return {
        **decoder(config),
        **gated_attention(config),
        **softmax_router(config, normalised=True),
        **_gated_shared_expert(config),
    }


def _gated_shared_expert(config: ModelConfigFile) -> Arguments:
    return {
        "moe_shared_expert_intermediate_size": config.need("shared_expert_intermediate_size"),
        "moe_shared_expert_gate": True,
    }


def _experts(config: ModelConfigFile, experts: str) -> Arguments:
    return {
        "num_experts": config.need(experts),
        "moe_ffn_hidden_size": config.get("moe_intermediate_size"),
        "moe_router_topk": config.need("num_experts_per_tok"),
        "moe_router_dtype": "fp32",
        "moe_aux_loss_coeff": 0.0,
        "moe_token_dispatcher_type": "alltoall",
        "moe_grouped_gemm": True,
        "moe_permute_fusion": True,
    }


def _sparse_layers(config: ModelConfigFile) -> list[int]:
    """1 for each layer with experts, as transformers decides it."""
    dense = set(config.get("mlp_only_layers", ()))
    every = int(config.get("decoder_sparse_step", 1))
    return [int(i not in dense and (i + 1) % every == 0) for i in range(config.layers)]


def _first_dense(config: ModelConfigFile) -> list[int]:
    """1 for each layer with experts: all but the first few."""
    kinds = config.get("mlp_layer_types")
    if kinds:
        return [int(kind == "sparse") for kind in kinds]
    dense = int(config.get("first_k_dense_replace", 0))
    return [int(i >= dense) for i in range(config.layers)]
