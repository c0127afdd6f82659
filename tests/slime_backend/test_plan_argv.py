from __future__ import annotations

import argparse
import json

import pytest

from backends.slime.argv import to_argv
from backends.slime.flags import known_flags


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lr": 1e-6}, ["--lr", "1e-06"]),
        ({"rollout_top_k": -1}, ["--rollout-top-k", "-1"]),
        ({"colocate": True, "use_tis": False}, ["--colocate"]),
        ({"save": None}, []),
        ({"offload_train": True}, ["--offload-train"]),
        ({"offload_train": False}, ["--no-offload-train"]),
        ({"no_offload_train": True}, ["--no-offload-train"]),
        ({"spec": ["a.b", "c"]}, ["--spec", "a.b", "c"]),
        ({"rollout_stop_token_ids": 5}, ["--rollout-stop-token-ids", "5"]),
        ({"moe_layer_freq": [0, 1]}, ["--moe-layer-freq", "[0,1]"]),
        ({"train_env_vars": {"A": "b"}}, ["--train-env-vars", '{"A":"b"}']),
        ({"train_env_vars": '{"A": 1}'}, ["--train-env-vars", '{"A": 1}']),
        ({"wandb_group": "-dash"}, ["--wandb-group=-dash"]),
        ({"sglang_model_checksum": True}, ["--sglang-model-checksum"]),
        ({"sglang_ep": 2}, ["--sglang-ep", "2"]),
        ({"override_opt_param_scheduler": True}, ["--override-opt-param-scheduler"]),
    ],
)
def test_a_value_becomes_the_words_that_slime_reads(
    arguments: dict[str, object], words: list[str]
) -> None:
    assert to_argv(arguments) == words


def test_an_option_that_may_be_repeated_is_repeated() -> None:
    words = to_argv({"rollout_sample_hook_path": ["a.b", "c.d"]})
    assert words == ["--rollout-sample-hook-path", "a.b", "--rollout-sample-hook-path", "c.d"]


def test_the_order_is_kept() -> None:
    assert to_argv({"seed": 1, "lr": 2.0}) == ["--seed", "1", "--lr", "2.0"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(3, ["--brand-new", "3"]), (True, ["--brand-new"]), ([1, 2], ["--brand-new", "1", "2"])],
)
def test_an_option_of_a_newer_slime_is_written_as_its_value_suggests(
    value: object, words: list[str]
) -> None:
    assert to_argv({"brand_new": value}) == words


def test_the_words_mean_the_same_to_argparse() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rollout-top-k", type=int)
    parser.add_argument("--wandb-group")
    parser.add_argument("--spec", nargs="*")
    parser.add_argument("--train-env-vars", type=json.loads)
    parser.add_argument("--offload-train", action=argparse.BooleanOptionalAction)
    given = {
        "rollout_top_k": -1,
        "wandb_group": "--starts-like-an-option",
        "spec": ["a", "b"],
        "train_env_vars": {"A": "b c"},
        "offload_train": False,
    }
    assert vars(parser.parse_args(to_argv(given))) == given


def test_the_table_ships_with_the_package_and_is_whole() -> None:
    flags = known_flags()
    owners = [flag.owner for flag in flags.values()]
    assert {owner: owners.count(owner) > 200 for owner in set(owners)} == {
        "slime": True,
        "megatron": True,
        "sglang": True,
    }
    assert flags["lr"].owner == "slime", "slime redefines some of Megatron's"
    assert flags["disable_bias_linear"].dest == "add_bias_linear"
    assert flags["attention_backend"].choices == ("flash", "fused", "unfused", "local", "auto")
    assert flags["debug_train_only"].switch and flags["rampup_batch_size"].nargs == 3
