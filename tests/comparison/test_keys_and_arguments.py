"""What each framework gets for a key: found by planning, so that no table can drift from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrain.comparison import Comparison, Row, Standing, compare
from retrain.config import BRIDGE_OPTIONS
from retrain.config.vocabulary import ROWS, SFT_KEYS

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
pytestmark = pytest.mark.slow

BOTH = ("trl", "slime")
FLAGS = Path(__file__).parents[2] / "backends" / "slime" / "slime_flags.json"
EVERYTHING: dict[str, Any] = {
    "kl_coef": 0.1,
    "importance_correction": "tis",
    "max_context_len": 400,
    "max_prompt_len": 100,
    "max_tokens_per_turn": 16,
    "warmup_steps": 1,
    "save_interval": 2,
    "eval_interval": 2,
    "sections": {
        "evaluation": {"prompt_source": {"type": "list", "source_config": {"items": ["held"]}}}
    },
}
"""A configuration in which every key has its effect."""


def rows_of(found: Comparison) -> dict[str, Row]:
    return {row.key: row for row in found.rows}


def first(row: Row, at: int) -> Any:
    cell = row.cells[at].first
    assert cell is not None, row
    return cell.option, cell.value


@pytest.fixture(scope="module")
def everything(make_config: Callable[..., Any]) -> dict[str, Row]:
    return rows_of(compare(make_config(**EVERYTHING), BOTH))


@pytest.fixture(scope="module")
def plain(make_config: Callable[..., Any]) -> Comparison:
    return compare(make_config(), BOTH)


def test_every_key_is_there_with_what_each_framework_gets(everything: dict[str, Row]) -> None:
    assert everything.keys() >= ROWS.keys() | BRIDGE_OPTIONS.keys()
    for key in ROWS:
        row = everything[key]
        for cell in row.cells:
            assert cell.told or cell.note, f"{key}: nothing is said"
        assert row.meaning == ROWS[key].meaning
    ours = {key for key in ROWS if everything[key].standing is Standing.RETRAIN}
    assert ours == {"max_tokens_per_turn"}, "kept by retrain's episode loop on both"


@pytest.mark.parametrize("at", [0, 1])
def test_the_words_of_the_documentation_are_what_planning_sends(
    everything: dict[str, Row], at: int
) -> None:
    """The vocabulary's words are a table of their own; here it is held against the plans."""
    for key in ROWS.keys() - {"num_epochs"}:
        cell, word = everything[key].cells[at], ROWS[key].word(BOTH[at])
        if word.option:
            assert cell.first is not None and cell.first.option == word.option, key
        else:
            assert not cell.told and cell.note == word.note, key


def test_epochs_become_iterations_on_both(make_config: Callable[..., Any]) -> None:
    config = make_config(num_iterations=None, num_epochs=6)
    row = rows_of(compare(config, BOTH))["num_epochs"]
    told = [{one.option: one.value for one in cell.told} for cell in row.cells]
    assert told[0]["max_steps"] == told[1]["num_rollout"] == 3


def test_only_what_changes_with_a_key_stands_beside_it(everything: dict[str, Row]) -> None:
    told = [{one.option for one in cell.told} for cell in everything["learning_rate"].cells]
    assert told == [{"learning_rate"}, {"lr"}]
    told = [{one.option for one in cell.told} for cell in everything["kl_estimator"].cells]
    assert told == [set(), {"kl_loss_type"}]
    assert everything["n_samples_per_prompt"].cells[0].told[0].option == "num_generations"


def test_a_key_without_effect_here_is_not_shown_as_sent(plain: Comparison) -> None:
    rows = rows_of(plain)
    assert rows["kl_estimator"].standing is Standing.UNUSED
    assert rows["kl_estimator"].cells[1].note == "kl_loss_type is not sent here"
    assert rows["max_context_len"].standing is Standing.UNUSED
    assert [one.option for one in rows["max_context_len"].cells[1].told] == [
        "rollout_max_context_len"
    ]


def test_sft_has_only_the_keys_that_mean_something_to_it(make_config: Callable[..., Any]) -> None:
    rows = rows_of(compare(make_config("sft"), BOTH))
    assert rows.keys() & ROWS.keys() == SFT_KEYS
    assert first(rows["global_batch_size"], 1) == ("global_batch_size", 8)


def test_same_value_and_own_terms_are_told_apart(everything: dict[str, Row]) -> None:
    standing = {key: row.standing for key, row in everything.items()}
    assert standing["learning_rate"] is standing["clip_eps_low"] is Standing.SAME
    assert standing["loss_aggregation"] is standing["top_k"] is Standing.OWN_TERMS
    assert standing["rollout.concurrency"] is Standing.RETRAIN


def test_an_option_of_one_framework_sets_its_key_there_only(
    make_config: Callable[..., Any],
) -> None:
    rows = rows_of(compare(make_config(trl_beta=0.25), BOTH))
    assert first(rows["kl_coef"], 0) == first(rows["trl_beta"], 0) == ("beta", 0.25)
    assert rows["kl_coef"].cells[0].note == "set by trl_beta"
    assert rows["kl_coef"].cells[1].first is None
    assert rows["trl_beta"].cells[1].note == "an option of trl's"


def test_a_bridge_option_shows_what_it_brings(make_config: Callable[..., Any]) -> None:
    rows = rows_of(compare(make_config(slime_gradient_checkpointing=True), BOTH))
    told = {one.option for one in rows["slime_gradient_checkpointing"].cells[1].told}
    assert "recompute_granularity" in told
    assert rows["slime_use_retrain_rewards"].meaning == BRIDGE_OPTIONS["slime_use_retrain_rewards"]


def test_defaults_are_those_of_the_installed_frameworks(plain: Comparison) -> None:
    from trl import GRPOConfig

    trl = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    slime = json.loads(FLAGS.read_text())["megatron"]
    row = rows_of(plain)["weight_decay"]
    assert row.cells[0].told[0].default == trl["weight_decay"]
    assert row.cells[1].told[0].default == slime["--weight-decay"]["default"] == 0.01
    overridden = {row.key for row in plain.overridden}
    assert overridden >= {"weight_decay", "adam_beta2", "lr_schedule", "loss_aggregation"}
    assert "adam_beta1" not in overridden, "both take retrain's default by themselves"
    for column in plain.columns:
        assert None not in column.defaults.values()
    assert plain.columns[1].defaults["attention_backend"] == "auto"
    assert plain.columns[1].defaults["swiglu"] is False


def test_what_is_fixed_follows_from_no_key(plain: Comparison) -> None:
    trl, slime = (set(column.fixed) for column in plain.columns)
    assert {"scale_rewards", "shuffle_dataset", "disable_dropout"} <= trl
    assert {"attention_dropout", "custom_reward_post_process_path"} <= slime
    assert not {"learning_rate", "weight_decay"} & (trl | slime)


def test_a_model_is_outlined_once_for_all_the_plans(
    make_config: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.local import outline

    read: list[str] = []
    real = outline.read_outline

    def counted(model: Any) -> Any:
        read.append(model.name_or_path)
        return real(model)

    monkeypatch.setattr(outline, "read_outline", counted)
    config = make_config()
    column = compare(config, ("trl",)).columns[0]
    assert column.plan is not None
    assert read.count(config.model.name_or_path) <= 5, (
        "once, and again for another type or revision"
    )
