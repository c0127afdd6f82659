"""The same key in both frameworks' words, and what slime demands of every command line."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from plan_configs import ASYNCHRONOUS, COLOCATED, LAPTOP, SFT, make_config

from backends.slime.argv import to_argv
from backends.slime.flags import known_flags
from backends.slime.planning import make_plan
from retrain.errors import ConfigError

SIZES = {"num_iterations": 6, "save_interval": 2, "slime_actor_num_gpus_per_node": 1}
PLANS = {"colocated": COLOCATED, "asynchronous": ASYNCHRONOUS, "sft": SFT, "laptop": LAPTOP}


def planned(folder: Path, *, name: str = "grpo", sections: Any = None, **hyper: Any) -> Any:
    made = {"model": "qwen3-0.6B", "name": name, "hyper": {**SIZES, **hyper}, "evaluation": True}
    return make_plan(make_config(folder, made, **(sections or {})))


@pytest.mark.parametrize(
    ("ours", "slimes"),
    [
        ({"learning_rate": 3e-5}, {"lr": 3e-5, "min_lr": 0.0}),
        ({"lr_schedule": "linear"}, {"lr_decay_style": "linear"}),
        ({"lr_schedule": "cosine", "warmup_steps": 3}, {"lr_warmup_iters": 3}),
        ({"weight_decay": 0.1}, {"weight_decay": 0.1}),
        ({"adam_beta1": 0.8, "adam_beta2": 0.95}, {"adam_beta1": 0.8, "adam_beta2": 0.95}),
        ({"max_grad_norm": 0.5}, {"clip_grad": 0.5}),
        ({"num_generations": 4}, {"n_samples_per_prompt": 4, "global_batch_size": 32}),
        (
            {"rollout_batch_size": 4, "n_samples_per_prompt": 6, "global_batch_size": 12},
            {"rollout_batch_size": 4, "n_samples_per_prompt": 6, "global_batch_size": 12},
        ),
        ({"max_completion_length": 99}, {"rollout_max_response_len": 99}),
        ({"max_context_len": 700}, {"rollout_max_context_len": 700}),
        (
            {"temperature": 0.7, "top_k": 5},
            {"rollout_temperature": 0.7, "rollout_top_p": 1.0, "rollout_top_k": 5},
        ),
        ({"top_p": 0.9}, {"rollout_top_p": 0.9, "rollout_top_k": -1}),
        (
            {"beta": 0.02},
            {"use_kl_loss": True, "kl_loss_coef": 0.02, "kl_loss_type": "k3"},
        ),
        ({"kl_coef": 0.02, "kl_estimator": "k1"}, {"kl_loss_type": "k1", "kl_coef": 0.0}),
        ({"epsilon": 0.1, "epsilon_high": 0.3}, {"eps_clip": 0.1, "eps_clip_high": 0.3}),
        ({}, {"num_rollout": 6, "save_interval": 2, "seed": 7, "rollout_seed": 7}),
        ({"eval_interval": 3}, {"eval_interval": 3}),
        ({"loss_aggregation": "token"}, {"calculate_per_token_loss": True}),
        ({"importance_correction": "tis"}, {"use_tis": True, "tis_clip": 2.0}),
        ({"importance_correction": "none"}, {"use_rollout_logprobs": True}),
        (
            {"slime_gradient_checkpointing": True},
            {
                "recompute_granularity": "full",
                "recompute_method": "uniform",
                "recompute_num_layers": 1,
            },
        ),
        ({"slime_use_wandb": True}, {"use_wandb": True}),
    ],
)
def test_a_key_is_sent_in_slimes_word(
    tmp_path: Path, ours: dict[str, Any], slimes: dict[str, Any]
) -> None:
    sent = planned(tmp_path, **ours).arguments
    assert {option: sent.get(option) for option in slimes} == slimes


@pytest.mark.parametrize(
    ("ours", "absent"),
    [
        ({"loss_aggregation": "sequence"}, {"calculate_per_token_loss"}),
        ({"kl_coef": 0.0}, {"use_kl_loss", "kl_loss_coef"}),
        ({"importance_correction": "tis"}, {"use_rollout_logprobs"}),
        ({"importance_correction": "none"}, {"use_tis"}),
        ({}, {"eps_clip_c", "num_steps_per_rollout", "disable_grpo_std_normalization"}),
        ({}, {"router_policy", "normalize_advantages", "num_epoch"}),
    ],
)
def test_what_excludes_it_or_means_another_thing_is_not_sent(
    tmp_path: Path, ours: dict[str, Any], absent: set[str]
) -> None:
    assert not absent & planned(tmp_path, **ours).arguments.keys()


@pytest.mark.parametrize("name", PLANS)
def test_everything_that_slime_requires_is_there(tmp_path: Path, name: str) -> None:
    sent = make_plan(make_config(tmp_path, PLANS[name])).arguments
    needed = {"hf_checkpoint", "load", "ref_load", "num_rollout", "rollout_batch_size"}
    needed |= {"global_batch_size", "rollout_max_response_len", "data_source_path"}
    assert needed <= sent.keys()
    assert {"use_dynamic_batch_size", "max_tokens_per_gpu"} <= sent.keys()
    assert ("save_interval" not in sent) or sent["save"]
    assert ("eval_interval" not in sent) or sent["eval_prompt_data"]
    assert {sent["attention_dropout"], sent["hidden_dropout"]} == {0.0}
    assert "{rollout_id}" in sent["save_hf"]


def test_the_asynchronous_loop_never_colocates(tmp_path: Path) -> None:
    plan = planned(tmp_path, slime_train_async=True)
    assert plan.entry == "train_async.py" and "--colocate" not in to_argv(plan.arguments)
    with pytest.raises(ConfigError, match="slime_train_async"):
        planned(tmp_path, slime_train_async=True, slime_colocate=True)


def test_every_option_that_is_sent_is_one_that_slime_reads(tmp_path: Path) -> None:
    for made in PLANS.values():
        sent = make_plan(make_config(tmp_path, made)).arguments
        assert sent.keys() <= known_flags().keys()


def test_the_table_holds_the_options_of_all_three_parsers() -> None:
    table = json.loads(files("backends.slime").joinpath("slime_flags.json").read_text("utf-8"))
    counted = {owner: len(rows) for owner, rows in table.items()}
    assert counted == {"slime": 208, "megatron": 659, "sglang": 524}


OWNER = {"rollout": {"owner": "slime"}}


def test_a_group_is_scored_by_the_function_for_groups(tmp_path: Path) -> None:
    plan = planned(tmp_path, sections=OWNER, slime_group_rm=True)
    assert plan.arguments["custom_rm_path"] == "backends.slime.plugin.group_reward"
    alone = planned(tmp_path, sections=OWNER).arguments
    assert alone["custom_rm_path"] == "backends.slime.plugin.reward"


@pytest.mark.parametrize("option", ["slime_group_rm", "slime_partial_rollout"])
def test_what_slime_cannot_do_with_several_segments_is_refused(tmp_path: Path, option: str) -> None:
    sections = {**OWNER, "rendering": {"history": "template"}}
    (error,) = planned(tmp_path, sections=sections, **{option: True}).errors
    assert option in error.key and "several segments" in error.message
    assert not planned(tmp_path, sections=OWNER, **{option: True}).errors


def test_segments_need_batches_by_tokens(tmp_path: Path) -> None:
    """slime's fixed micro-batches want an even number of samples in every step."""
    fixed = {"slime_use_dynamic_batch_size": False}
    (error,) = planned(tmp_path, sections={"rendering": {"history": "template"}}, **fixed).errors
    assert "slime_use_dynamic_batch_size" in error.key and "several segments" in error.message
    assert not planned(tmp_path, **fixed).errors


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"model": {"peft": {"r": 8}}}, "model.peft"),
        ({"model": {"threads": 4}}, "model.threads"),
        ({"model": {"torch_dtype": "float32"}}, "model.torch_dtype"),
        ({"rollout": {"engine": "vllm"}}, "rollout.engine"),
    ],
)
def test_a_key_that_means_something_on_trl_only_is_told(
    tmp_path: Path, sections: dict[str, Any], key: str
) -> None:
    if "model" in sections:
        sections = {"model": {"name_or_path": str(tmp_path / "model"), **sections["model"]}}
    problems = planned(tmp_path, sections=sections).problems
    assert key in [problem.key for problem in problems]


@pytest.mark.parametrize("boundary", ["environment", "tool", "rendering", "engine"])
def test_slimes_manager_draws_no_other_task(tmp_path: Path, boundary: str) -> None:
    failure = {"failure": {boundary: "refill"}}
    (error,) = planned(tmp_path, sections={"rollout": {"owner": "slime", **failure}}).errors
    assert error.key == f"rollout.failure.{boundary}" and "refill" in error.message
    assert not planned(tmp_path, sections={"rollout": failure}).errors


def test_what_the_handover_leaves_out_is_refused_by_name(tmp_path: Path) -> None:
    """Otherwise the environment would be given "<redacted>" on slime, and its value on TRL."""
    rows = [{"prompt": "guess", "secret": "7"}, {"prompt": "see http://me:pw@host"}]
    sections = {
        "environment": {"type": "calculator", "env_specific_config": {"api_key": "k-123"}},
        "prompt_source": {"type": "list", "source_config": {"items": rows}},
    }
    keys = [error.key for error in planned(tmp_path, sections=sections).errors]
    items = "prompt_source.source_config.items"
    assert keys == [
        "environment.env_specific_config.api_key",
        f"{items}.0.secret",
        f"{items}.1.prompt",
    ]
    assert not planned(tmp_path).errors
