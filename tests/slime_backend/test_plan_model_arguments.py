from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from plan_models import MODELS, NOT_DERIVED

from backends.slime.argv import to_argv
from backends.slime.flags import known_flags
from backends.slime.model_arguments import BY_HAND, FAMILIES, model_arguments, model_notes
from backends.slime.model_config import ModelConfigFile
from retrain.errors import ConfigError

GOLDEN = Path(__file__).parent / "golden" / "model_arguments.txt"
SLIME = os.environ.get("RETRAIN_SLIME", "")


def derive(config: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    return model_arguments(ModelConfigFile.of(config), given)


@pytest.mark.parametrize("name", MODELS)
def test_published_models_have_the_arguments_on_record(name: str) -> None:
    recorded = dict(line.split(": ", 1) for line in GOLDEN.read_text().splitlines())
    assert to_argv(derive(MODELS[name])) == shlex.split(recorded[name])


def test_every_family_is_on_record() -> None:
    held = {config["model_type"] for config in MODELS.values()}
    assert FAMILIES.keys() - held == {"qwen2_moe"}, "slime has no script for it"


@pytest.mark.slime
@pytest.mark.skipif(not SLIME, reason="set RETRAIN_SLIME to a checkout of slime")
def test_every_script_of_slime_is_known() -> None:
    scripts = {path.stem for path in Path(SLIME, "scripts", "models").glob("*.sh")}
    assert scripts == MODELS.keys() | NOT_DERIVED.keys()


@pytest.mark.slime
@pytest.mark.skipif(not SLIME, reason="set RETRAIN_SLIME to a checkout of slime")
@pytest.mark.parametrize("name", MODELS)
def test_the_arguments_are_those_of_slimes_own_script(name: str) -> None:
    script = Path(SLIME, "scripts", "models", f"{name}.sh")
    command = f'source {script}; printf "%s\\0" "${{MODEL_ARGS[@]}}"'
    printed = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    theirs = meaning(printed.stdout.split("\0")[:-1])
    ours = meaning(to_argv(derive(MODELS[name])))
    for option in WITHOUT_EFFECT.get(name, ()):
        theirs.pop(option, None)
        ours.pop(option, None)
    assert ours == theirs


WITHOUT_EFFECT = {
    # The model provider hands no factor on; --rotary-scaling-factor is latent attention's.
    "llama3.1-8B-Instruct": ["rotary_scaling_factor", "rope_scaling_factor"],
    "llama3.2-3B-Instruct": ["rotary_scaling_factor", "rope_scaling_factor"],
    "llama3.2-3B-Instruct-amd": ["rotary_scaling_factor", "rope_scaling_factor"],
    # slime's scripts without it get alltoall all the same.
    "glm4.7-30B-A3B": ["moe_token_dispatcher_type"],
    # slime's script leaves the routers' bias to drift at Megatron's default rate.
    "minimax-m2": ["moe_router_bias_update_rate"],
}

EVERYWHERE = {
    "attention_softmax_in_fp32": "sent for every model",
    "max_position_embeddings": "bounds nothing where positions are rotated",
    "seq_length": "slime's batches have variable lengths",
    "no_masked_softmax_fusion": "the fused kernels of the unfused path",
    "use_rotary_position_embeddings": "the old spelling of --position-embedding-type rope",
}


def meaning(words: list[str]) -> dict[str, Any]:
    """What options say: parsed, without what is a default and what has no effect."""
    said: dict[str, Any] = {}
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            said[name] = []
        else:
            said[name].append(read(word))
    said["position_embedding_type"] = ["rope"]
    if "moe_layer_freq" in said:
        said["moe_layer_freq"] = layers(said["moe_layer_freq"][0])
    if "multi_latent_attention" in said:
        said.pop("kv_channels")  # latent attention has its own widths
    elif said.get("kv_channels") == [said["hidden_size"][0] // said["num_attention_heads"][0]]:
        said.pop("kv_channels")  # what Megatron takes without it
    if said.get("moe_router_num_groups") == [1]:
        del said["moe_router_num_groups"], said["moe_router_group_topk"]
    return {
        name: value
        for name, value in said.items()
        if name not in EVERYWHERE and value != [DEFAULTS[name]]
    }


def read(word: str) -> Any:
    try:
        return float(word) if word.replace(".", "").replace("e-", "").isdigit() else word
    except ValueError:
        return word


def layers(text: Any) -> Any:
    """`[0]*1+[1]*45`, or a list that the shell has written without commas."""
    text = str(text)
    if "*" in text:
        return [n for part in text.split("+") for n in _repeated(part)]
    if "," not in text and " " in text:
        text = text.replace(" ", ", ")
    return ast.literal_eval(text)


def _repeated(part: str) -> list[int]:
    item, _, count = part.partition("*")
    return ast.literal_eval(item) * int(count)


def _defaults() -> dict[str, Any]:
    table = json.loads(
        (Path(__file__).parents[2] / "backends" / "slime" / "slime_flags.json").read_text()
    )
    rows = {**table["slime"], **table["megatron"]}
    named = {spelling: row["default"] for row in rows.values() for spelling in row["flags"]}
    return {k.removeprefix("--").replace("-", "_"): v for k, v in named.items()}


DEFAULTS = _defaults()


def test_an_unknown_architecture_says_what_to_set_by_hand() -> None:
    with pytest.raises(ConfigError) as caught:
        derive({"model_type": "gemma3"}, num_layers=2)
    message = str(caught.value)
    assert "'gemma3'" in message and "slime_ref_load" in message
    assert "slime_hidden_size" in message and "slime_num_layers" not in message


def test_an_unknown_architecture_can_be_described_by_hand() -> None:
    assert derive({"model_type": "gemma3"}, **dict.fromkeys(BY_HAND, 1)) == {}
    assert known_flags().keys() >= set(BY_HAND)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("qwen3-4B", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("qwen3-4B", {"use_sliding_window": True}, "use_sliding_window"),
        ("qwen3-4B", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "type 'yarn'"),
        ("llama3.1-8B-Instruct", {"attention_bias": True}, "attention_bias"),
        ("llama3.1-8B-Instruct", {"mlp_bias": True}, "mlp_bias"),
        ("deepseek-v3", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "type 'linear'"),
    ],
)
def test_parts_that_megatron_has_no_argument_for_are_refused(
    name: str, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        derive({**MODELS[name], **change})


def test_stretched_positions_with_other_bounds_are_refused() -> None:
    rope = {**MODELS["llama3.1-8B-Instruct"]["rope_scaling"], "high_freq_factor": 8.0}
    with pytest.raises(ConfigError, match=r"high_freq_factor 8.0 .* Megatron fixes it at 4.0"):
        derive({**MODELS["llama3.1-8B-Instruct"], "rope_scaling": rope})


def test_a_missing_size_is_named() -> None:
    config = {k: v for k, v in MODELS["qwen3-4B"].items() if k != "hidden_size"}
    with pytest.raises(ConfigError, match="has no hidden_size"):
        derive(config)


def test_a_base_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"rope_theta 10000.5 is no whole number"):
        derive({**MODELS["qwen3-4B"], "rope_theta": 10000.5})


def test_a_factor_that_slime_loses_is_told() -> None:
    def notes(name: str) -> list[str]:
        return model_notes(ModelConfigFile.of(MODELS[name]))

    assert notes("llama3.1-8B-Instruct") == []
    (note,) = notes("llama3.2-3B-Instruct")
    assert "factor 32" in note and "train_rollout_logprob_abs_diff" in note


def test_bounds_of_yarn_that_megatron_fixes_are_told() -> None:
    rope = {**MODELS["kimi-k2"]["rope_scaling"], "beta_fast": 1.0}
    config = {**MODELS["kimi-k2"], "rope_scaling": rope}
    (note,) = model_notes(ModelConfigFile.of(config))
    assert "beta_fast 1" in note and "takes 32" in note


def test_experts_that_are_not_normalised_are_chosen_after_the_softmax() -> None:
    config = {**MODELS["qwen3-30B-A3B"], "norm_topk_prob": False}
    assert derive(config)["moe_router_pre_softmax"] is True
    assert not derive(MODELS["qwen3-30B-A3B"])["moe_router_pre_softmax"]


def test_qwen2_moe_has_a_shared_expert_behind_a_gate() -> None:
    config = {
        **MODELS["qwen2.5-7B"],
        "model_type": "qwen2_moe",
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [1],
    }
    derived = derive(config)
    assert derived["moe_shared_expert_intermediate_size"] == 5632
    assert derived["moe_shared_expert_gate"] is derived["add_qkv_bias"] is True
    assert derived["moe_router_pre_softmax"] is True, "norm_topk_prob is false by default"
    assert derived["moe_layer_freq"].startswith("[0]*3+[1]*1+[0]*1+[1]*1+")
