"""What the `config.json` of published models says, where Megatron's arguments follow from it."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def _sized(
    model_type: str,
    hidden: int,
    ffn: int,
    layers: int,
    heads: int,
    groups: int,
    vocabulary: int,
    theta: float,
    eps: float = 1e-6,
    **further: Any,
) -> Config:
    return {
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocabulary,
        "rope_theta": theta,
        "rms_norm_eps": eps,
        "tie_word_embeddings": False,
        **further,
    }


def _llama(hidden: int, ffn: int, layers: int, heads: int, factor: float, *, tied: bool) -> Config:
    stretched = {
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    }
    sizes = hidden, ffn, layers, heads, 8, 128256, 500000.0, 1e-5
    return _sized("llama", *sizes, tie_word_embeddings=tied, rope_scaling=stretched)


def _qwen2(*sizes: int, theta: float = 1e6, eps: float = 1e-6, tied: bool = False) -> Config:
    window = {"use_sliding_window": False, "sliding_window": 32768}
    return _sized("qwen2", *sizes, theta, eps, tie_word_embeddings=tied, **window)


def _qwen3(*sizes: int, theta: float = 1e6, tied: bool = False) -> Config:
    further = {"head_dim": 128, "attention_bias": False, "use_sliding_window": False}
    return _sized("qwen3", *sizes, 151936, theta, tie_word_embeddings=tied, **further)


def _qwen3_moe(*sizes: int, expert: int) -> Config:
    return _sized(
        "qwen3_moe",
        *sizes,
        151936,
        1e6,
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=expert,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )


def _qwen3_5(*sizes: int, tied: bool = False, **further: Any) -> Config:
    text = _sized("qwen3_5_text", *sizes, 248320, 0, tie_word_embeddings=tied, head_dim=256)
    del text["rope_theta"]
    rope = {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}
    text = {**text, "rope_parameters": {**rope, "mrope_interleaved": True}, **further}
    return {"model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": tied}


def _glm4(*sizes: int, bias: bool) -> Config:
    rope = {"partial_rotary_factor": 0.5, "head_dim": 128}
    return _sized("glm4", *sizes, 151552, 10000.0, 1e-5, attention_bias=bias, **rope)


def _glm4_moe(*sizes: int, **further: Any) -> Config:
    return _sized(
        "glm4_moe",
        *sizes,
        151552,
        1000000,
        1e-5,
        head_dim=128,
        partial_rotary_factor=0.5,
        attention_bias=True,
        num_experts_per_tok=8,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        **further,
    )


def _deepseek(
    *sizes: int, eps: float, theta: float, factor: float | None, **further: Any
) -> Config:
    yarn = {
        "type": "yarn",
        "factor": factor,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    }
    latent = {
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
    }
    hidden, ffn, layers, heads, vocabulary = sizes
    return _sized(
        "deepseek_v3",
        hidden,
        ffn,
        layers,
        heads,
        heads,
        vocabulary,
        theta,
        eps,
        rope_scaling=None if factor is None else yarn,
        **{**latent, **further},
    )


def _kimi(factor: float, eps: float) -> Config:
    config = _deepseek(
        7168,
        18432,
        61,
        64,
        163840,
        eps=eps,
        theta=50000.0,
        factor=factor,
        q_lora_rank=1536,
        n_routed_experts=384,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.827,
        first_k_dense_replace=1,
    )
    return {**config, "model_type": "kimi_k2"}


def _deepseek_v3(layers: int) -> Config:
    return _deepseek(
        7168,
        18432,
        layers,
        128,
        129280,
        eps=1e-6,
        theta=10000,
        factor=40,
        q_lora_rank=1536,
        n_routed_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        n_shared_experts=1,
        n_group=8,
        topk_group=4,
        routed_scaling_factor=2.5,
        first_k_dense_replace=3,
        num_nextn_predict_layers=1,
    )


_MOONLIGHT = _deepseek(
    2048,
    11264,
    27,
    16,
    163840,
    eps=1e-5,
    theta=50000.0,
    factor=None,
    q_lora_rank=None,
    n_routed_experts=64,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
    n_shared_experts=2,
    n_group=1,
    topk_group=1,
    routed_scaling_factor=2.446,
    first_k_dense_replace=1,
)

_GLM_4_7_FLASH = {
    **_sized("glm4_moe_lite", 2048, 10240, 47, 20, 20, 154880, 1000000, 1e-5),
    "rope_scaling": None,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 64,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1536,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.8,
    "first_k_dense_replace": 1,
}

_QWEN3_NEXT = _sized(
    "qwen3_next",
    2048,
    5120,
    48,
    16,
    2,
    151936,
    10000000,
    head_dim=256,
    partial_rotary_factor=0.25,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    norm_topk_prob=True,
    decoder_sparse_step=1,
    mlp_only_layers=[],
)

_MINIMAX_M2 = _sized(
    "minimax_m2",
    3072,
    1536,
    62,
    48,
    8,
    200064,
    5000000,
    head_dim=128,
    rotary_dim=64,
    num_local_experts=256,
    num_experts_per_tok=8,
)

_QWEN3_5_MOE_TEXT = _qwen3_5(
    2048,
    0,
    40,
    16,
    2,
    num_experts=256,
    num_experts_per_tok=8,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
)
del _QWEN3_5_MOE_TEXT["text_config"]["intermediate_size"]
_QWEN3_5_MOE = {**_QWEN3_5_MOE_TEXT, "model_type": "qwen3_5_moe"}

MODELS: dict[str, Config] = {
    "deepseek-v3": _deepseek_v3(61),
    "deepseek-v3-20layer": _deepseek_v3(20),
    "deepseek-v3-5layer": _deepseek_v3(5),
    "glm4-32B": _glm4(6144, 23040, 64, 48, 8, bias=False),
    "glm4-9B": _glm4(4096, 13696, 40, 32, 2, bias=True),
    "glm4.5-106B-A12B": _glm4_moe(
        4096,
        10944,
        46,
        96,
        8,
        n_routed_experts=128,
        moe_intermediate_size=1408,
        routed_scaling_factor=1.0,
        first_k_dense_replace=1,
        use_qk_norm=False,
    ),
    "glm4.5-355B-A32B": _glm4_moe(
        5120,
        12288,
        92,
        96,
        8,
        n_routed_experts=160,
        moe_intermediate_size=1536,
        routed_scaling_factor=2.5,
        first_k_dense_replace=3,
        use_qk_norm=True,
    ),
    "glm4.7-30B-A3B": _GLM_4_7_FLASH,
    "kimi-k2": _kimi(32.0, 1e-6),
    "kimi-k2-thinking": _kimi(64.0, 1e-5),
    "llama3.1-8B-Instruct": _llama(4096, 14336, 32, 32, 8.0, tied=False),
    "llama3.2-3B-Instruct": _llama(3072, 8192, 28, 24, 32.0, tied=True),
    "llama3.2-3B-Instruct-amd": _llama(3072, 8192, 28, 24, 32.0, tied=True),
    "mimo-7B-rl": {
        **_qwen2(4096, 11008, 36, 32, 8, 151680, theta=640000, eps=1e-5),
        "model_type": "mimo",
        "num_nextn_predict_layers": 1,
    },
    "minimax-m2": _MINIMAX_M2,
    "moonlight": _MOONLIGHT,
    "qwen2.5-0.5B": _qwen2(896, 4864, 24, 14, 2, 151936, tied=True),
    "qwen2.5-1.5B": _qwen2(1536, 8960, 28, 12, 2, 151936, theta=10000, tied=True),
    "qwen2.5-32B": _qwen2(5120, 27648, 64, 40, 8, 152064, eps=1e-5),
    "qwen2.5-3B": _qwen2(2048, 11008, 36, 16, 2, 151936, tied=True),
    "qwen2.5-7B": _qwen2(3584, 18944, 28, 28, 4, 152064),
    "qwen3-0.6B": _qwen3(1024, 3072, 28, 16, 8, tied=True),
    "qwen3-1.7B": _qwen3(2048, 6144, 28, 16, 8, tied=True),
    "qwen3-14B": _qwen3(5120, 17408, 40, 40, 8),
    "qwen3-235B-A22B": _qwen3_moe(4096, 12288, 94, 64, 4, expert=1536),
    "qwen3-30B-A3B": _qwen3_moe(2048, 6144, 48, 32, 4, expert=768),
    "qwen3-32B": _qwen3(5120, 25600, 64, 64, 8),
    "qwen3-4B": _qwen3(2560, 9728, 36, 32, 8, tied=True),
    "qwen3-4B-Instruct-2507": _qwen3(2560, 9728, 36, 32, 8, theta=5000000, tied=True),
    "qwen3-8B": _qwen3(4096, 12288, 36, 32, 8),
    "qwen3-next-80B-A3B": _QWEN3_NEXT,
    "qwen3.5-0.8B": _qwen3_5(1024, 3584, 24, 8, 2, tied=True),
    "qwen3.5-27B": _qwen3_5(5120, 17408, 64, 24, 4),
    "qwen3.5-35B-A3B": _QWEN3_5_MOE,
    "qwen3.5-4B": _qwen3_5(2560, 9216, 32, 16, 4, tied=True),
    "qwen3.5-9B": _qwen3_5(4096, 12288, 32, 16, 4),
}
"""By the name of slime's own script for the model."""

NOT_DERIVED = {
    "glm5-744B-A40B": "its sparse attention needs options that its config.json does not hold",
    "glm5.2-744B-A40B": "its sparse attention needs options that its config.json does not hold",
    "qwen3.5-35B-A3B-vl": "images are not trained on: the text model's arguments are used",
}
"""Scripts of slime without a derivation, and why."""
