from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_configs import make_config
from slime_text import OWN, write_slime

from backends.slime.flags import known_flags
from backends.slime.flags_source import declared_flags
from backends.slime.options import check_options
from backends.slime.options_refused import ONLY_AT, REFUSED, SLIME_MANAGER_ONLY
from backends.slime.planning import make_plan
from retrain.config import BRIDGE_OPTIONS, ROWS, RunConfig
from retrain.errors import ConfigError


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def make(*, owner: str = "retrain", name: str = "grpo", **hyper: Any) -> RunConfig:
        sizes = {"num_iterations": 2, "slime_actor_num_gpus_per_node": 1}
        chosen = {"model": "qwen3-0.6B", "name": name, "hyper": {**sizes, **hyper}}
        return make_config(tmp_path, chosen, rollout={"owner": owner})

    return make


def test_every_refusal_names_an_option_that_exists() -> None:
    assert {*REFUSED, *SLIME_MANAGER_ONLY, *ONLY_AT} <= known_flags().keys()


def test_every_slime_word_of_the_vocabulary_is_an_option_of_slime() -> None:
    assert {row.slime.option for row in ROWS.values() if row.slime.option} <= known_flags().keys()


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_would_undo_ours_are_refused(config: Any, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"slime_{option}: is refused: "):
        make_plan(config(**{f"slime_{option}": 1}))


@pytest.mark.parametrize("option", SLIME_MANAGER_ONLY)
def test_options_of_slimes_manager_need_it(config: Any, option: str) -> None:
    value: Any = True if known_flags()[option].switch else "package.function"
    value = 16 if option == "over_sampling_batch_size" else value
    with pytest.raises(ConfigError, match=rf"slime_{option}: is refused: .*rollout.owner: slime"):
        make_plan(config(**{f"slime_{option}": value}))
    made = make_plan(config(owner="slime", **{f"slime_{option}": value}))
    assert made.arguments[option] == value


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"slime_kl_coef": 0.1}, "it shapes the rewards"),
        ({"slime_attention_dropout": 0.1}, "dropout"),
        ({"slime_hidden_dropout": 0.1}, "dropout"),
        ({"slime_advantage_estimator": "ppo"}, "algorithm.name grpo is grpo here"),
        ({"slime_advantage_estimator": "gspo"}, "algorithm.name grpo is grpo here"),
        ({"slime_router_policy": "consistent_hashing"}, "sglang-router 0.3.2"),
        ({"slime_eps_clip_c": 3.0}, "no dual clip"),
        ({"slime_bf16": False}, "model.torch_dtype auto trains in bf16"),
        ({"slime_fp16": True}, "model.torch_dtype auto trains in bf16"),
        ({"slime_use_retrain_environment": False}, "leave retrain's environment out"),
        ({"slime_use_retrain_rewards": False}, "leave retrain's rewards out"),
    ],
)
def test_values_that_would_undo_ours_are_refused(
    config: Any, given: dict[str, Any], reason: str
) -> None:
    (option,) = given
    with pytest.raises(ConfigError, match=rf"{option}: .*{reason}"):
        make_plan(config(**given))


def test_values_that_are_ours_anyway_are_taken(config: Any) -> None:
    same = {"kl_coef": 0, "attention_dropout": 0.0, "advantage_estimator": "gspo", "bf16": True}
    made = make_plan(config(name="gspo", **{f"slime_{key}": value for key, value in same.items()}))
    assert made.arguments["advantage_estimator"] == "gspo"
    assert made.arguments["kl_coef"] == made.arguments["attention_dropout"] == 0.0


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("max_tokens_per_gpu", "many", "expected an integer, got 'many'"),
        ("max_tokens_per_gpu", True, "expected an integer, got True"),
        ("max_tokens_per_gpu", 1.5, "expected an integer, got 1.5"),
        ("entropy_coef", "small", "expected a number, got 'small'"),
        ("wandb_project", 5, "expected text, got 5"),
        ("colocate", "yes", "expected true or false, got 'yes'"),
        ("train_async", "yes", "expected true or false, got 'yes'"),
        ("update_weight_transport", "smoke", "is none of nccl, disk"),
        ("recompute_granularity", "ful", "did you mean 'full'"),
        ("attention_backend", "flsh", "did you mean 'flash'"),
        ("rampup_batch_size", [1, 2], "expected a list of 3 values, got 2"),
        ("profile_target", [], "expected a list that is not empty"),
        ("profile_target", ["nothing"], "is none of train_overall"),
        ("freeze_params_name_list", ["--x"], "would be read as an option of its own"),
        ("train_env_vars", "{no json", "expected a mapping, a list, or JSON as text"),
    ],
)
def test_values_that_slime_does_not_take_are_refused(
    config: Any, option: str, value: Any, reason: str
) -> None:
    with pytest.raises(ConfigError, match=rf"slime_{option}: .*{reason}"):
        make_plan(config(**{f"slime_{option}": value}))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("entropy_coef", 1),
        ("train_env_vars", {"A": "b"}),
        ("freeze_params_name_list", ["experts"]),
        ("freeze_params_name_list", "experts"),
        ("sglang_context_length", "32k"),
        ("attention_backend", "fused"),
        ("router_policy", "manual"),
        ("offload_train", False),
    ],
)
def test_values_that_slime_takes_are_sent_as_they_are(config: Any, option: str, value: Any) -> None:
    assert make_plan(config(**{f"slime_{option}": value})).arguments[option] == value


def test_a_mistyped_option_is_named_with_the_nearest(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"slime_tis_clop: .*did you mean 'tis_clip'"):
        make_plan(config(slime_tis_clop=1))


def test_an_attribute_instead_of_an_option_is_answered_with_the_option(config: Any) -> None:
    with pytest.raises(ConfigError, match="--disable-bias-linear is the option for it"):
        make_plan(config(slime_add_bias_linear=False))


def test_all_wrong_options_are_named_at_once(config: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(config(slime_normalize_advantages=True, slime_xyz=1, slime_colocate=3))
    assert len(str(caught.value).splitlines()) == 3


def test_the_slime_here_is_asked_for_what_the_table_lacks(config: Any) -> None:
    declared = declared_flags(
        "p.add_argument('--brand-new', type=int)\n"
        "p.add_argument('--opd-type', choices=['sglang', 'another'])\n"
    )
    made = config(slime_brand_new=3, slime_opd_type="another")
    with pytest.raises(ConfigError, match="brand_new"):
        check_options(made)
    assert check_options(made, declared).items() >= {"brand_new": 3, "opd_type": "another"}.items()
    with pytest.raises(ConfigError, match="expected an integer, got 'x'"):
        check_options(config(slime_brand_new="x"), declared)


def test_a_newer_slime_in_a_checkout_is_read(config: Any, tmp_path: Path) -> None:
    checkout = write_slime(tmp_path / "checkout", [*OWN, "--brand-new"])
    sizes = {"num_iterations": 2, "slime_brand_new": 3}
    chosen = {"model": "qwen3-0.6B", "hyper": sizes}
    plan = make_plan(make_config(tmp_path, chosen, cluster={"slime": str(checkout)}))
    assert plan.command[-2:] == ("--brand-new", "3")
    (warning,) = (p for p in plan.problems if p.key == "cluster.slime")
    assert not warning.stops and "is not the tested 0.3.1" in warning.message
    assert "also declares --brand-new" in warning.message


def test_the_bridge_options_are_answered_and_not_sent(config: Any) -> None:
    made = make_plan(config(**dict.fromkeys(BRIDGE_OPTIONS, True)))
    assert not {key.removeprefix("slime_") for key in BRIDGE_OPTIONS} & made.arguments.keys()
    assert made.arguments["recompute_granularity"] == "full"
    without = make_plan(config(slime_gradient_checkpointing=False))
    assert "recompute_granularity" not in without.arguments


def test_an_option_that_is_a_key_of_the_vocabulary_sets_the_key(config: Any) -> None:
    made = make_plan(config(slime_lr=0.5, slime_clip_grad=2.0))
    assert (made.arguments["lr"], made.arguments["clip_grad"]) == (0.5, 2.0)
    assert made.config.algorithm.hyperparameters.learning_rate == 0.5


def test_trl_options_are_not_sent_to_slime(config: Any) -> None:
    plain, with_trl = make_plan(config()), make_plan(config(trl_optim="sgd", trl_nonsense=1))
    assert plain.arguments == with_trl.arguments


def test_a_credential_is_sent_and_never_shown(config: Any) -> None:
    made = make_plan(config(slime_wandb_key="w4ndb-secret"))
    assert made.arguments["wandb_key"] == "w4ndb-secret"
    assert "w4ndb-secret" not in " ".join(made.command)
    assert made.command[:2] == ("python3", "train.py") and "--wandb-key" in made.command
