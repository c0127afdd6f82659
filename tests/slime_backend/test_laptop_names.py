from __future__ import annotations

from backends.slime.laptop.pretend.layernorm_names import fused_names

LAYER = "module.module.decoder.layers"
DENSE = [
    f"{LAYER}.0.input_layernorm.weight",
    f"{LAYER}.0.self_attention.linear_qkv.weight",
    f"{LAYER}.0.self_attention.q_layernorm.weight",
    f"{LAYER}.0.pre_mlp_layernorm.weight",
    f"{LAYER}.0.mlp.linear_fc1.weight",
]
EXPERTS = [
    f"{LAYER}.1.input_layernorm.weight",
    f"{LAYER}.1.pre_mlp_layernorm.weight",
    f"{LAYER}.1.mlp.experts.linear_fc1.weight0",
]


def renamed(names: list[str]) -> list[str]:
    return [name for name, _ in fused_names((name, None) for name in names)]


def test_the_norms_of_a_dense_layer_take_the_fused_names() -> None:
    assert renamed(DENSE) == [
        f"{LAYER}.0.self_attention.linear_qkv.layer_norm_weight",
        f"{LAYER}.0.self_attention.linear_qkv.weight",
        f"{LAYER}.0.self_attention.q_layernorm.weight",
        f"{LAYER}.0.mlp.linear_fc1.layer_norm_weight",
        f"{LAYER}.0.mlp.linear_fc1.weight",
    ]


def test_the_norm_before_experts_keeps_its_name() -> None:
    assert renamed([*DENSE, *EXPERTS])[5:] == [
        f"{LAYER}.1.self_attention.linear_qkv.layer_norm_weight",
        f"{LAYER}.1.pre_mlp_layernorm.weight",
        f"{LAYER}.1.mlp.experts.linear_fc1.weight0",
    ]


def test_what_lies_outside_the_layers_and_the_values_stay() -> None:
    named = [("module.module.decoder.final_layernorm.weight", 1), ("output_layer.weight", 2)]
    assert list(fused_names(named)) == named


def test_biases_are_renamed_like_weights() -> None:
    assert renamed([f"{LAYER}.0.input_layernorm.bias"]) == [
        f"{LAYER}.0.self_attention.linear_qkv.layer_norm_bias"
    ]
