"""One tape through the real path of each backend: the same rows, and weights that are accounted."""

from __future__ import annotations

from typing import Any

import pytest
from readings import (
    real_slime_reading,
    shift_masks,
    slime_reading,
    text,
    torch_reading,
    trl_reading,
)

from retrain.parity import compare_weights, digest, read_recorded, row_differences
from retrain.parity.report import outcome_of, report_of

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'retrain[trl]'")


def test_all_train_on_what_was_recorded(recorded: Any, expected: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    fitted = recorded()
    readings = [slime_reading(fitted), torch_reading(fitted), trl_reading(fitted)]
    assert len(expected) == 16
    assert sum(not row.trained for row in expected) > 0, "some episodes fail"
    assert sum(len(row.mask) - row.trained for row in expected) > 50, "and there are replies"
    assert {digest(reading.rows) for reading in readings} == {digest(expected)}
    report = report_of(expected, [outcome_of(expected, reading, text) for reading in readings])
    assert report.equal
    *slimes, others = report.weights
    for weights in slimes:
        assert weights.tokens == weights.differing == sum(row.trained for row in expected)
        assert weights.explained and "counts a row that trains nothing" in weights.causes[0]
    assert (others.backends, others.differing) == (("torch", "trl"), 0)


def test_the_named_setting_makes_the_weights_equal(recorded: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    fitted = recorded(loss_aggregation="sequence")
    weights = compare_weights(slime_reading(fitted), trl_reading(fitted))
    assert weights.tokens > 100 and weights.differing == 0


def test_a_kl_term_and_episodes_that_train_nothing_leave_the_weights_as_they_are(
    recorded: Any, expected: Any, monkeypatch: Any
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    fitted = recorded(
        loss_aggregation="sequence", global_batch_size=4, kl_coef=0.3, kl_estimator="k1"
    )
    found = torch_reading(fitted)
    assert digest(found.rows) == digest(expected)
    weights = compare_weights(slime_reading(fitted), found)
    assert weights.tokens > 100 and weights.differing == 0
    assert {row.step for row in found.rows if not row.trained} - {0, 3}


def test_shuffled_steps_are_named(recorded: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    fitted = recorded(global_batch_size=8)
    readings = [slime_reading(fitted), trl_reading(fitted)]
    for reading in readings:
        assert {row.step for row in reading.rows} == {0, 1}
    weights = compare_weights(*readings)
    assert weights.explained and weights.differing
    assert any("global_batch_size" in cause for cause in weights.causes)


def test_a_micro_batch_that_the_tape_does_not_fill_is_left_out(
    parity_config: Any, parity_tape: Any, expected: Any
) -> None:
    document = parity_config.model_dump(mode="json")
    hyper = document["algorithm"]["hyperparameters"]
    hyper |= {
        "rollout_batch_size": 16,
        "global_batch_size": 64,
        "warmup_steps": 3,
        "eval_interval": 1,
        "trl_per_device_train_batch_size": 64,
    }
    document["evaluation"] = {"prompt_source": document["prompt_source"]}
    fitted = read_recorded(type(parity_config).model_validate(document), parity_tape)
    assert digest(trl_reading(fitted).rows) == digest(expected)


def test_a_mask_that_is_off_by_one_in_trl_is_caught(
    recorded: Any, expected: Any, monkeypatch: Any
) -> None:
    shift_masks(monkeypatch)
    found = list(row_differences(expected, trl_reading(recorded()), text))
    assert {difference.what for difference in found} == {"mask"}
    assert len(found) > 10 and found[0].token == 0


def test_positional_groups_in_slime_are_caught(
    recorded: Any, expected: Any, monkeypatch: Any
) -> None:
    from backends.slime import plugin
    from retrain.reward.advantages import group_advantages

    def positional(args: Any, samples: Any) -> Any:
        raw = [sample.reward for sample in samples]
        groups = [raw[at : at + 4] for at in range(0, len(raw), 4)]
        return raw, [value for group in groups for value in group_advantages("grpo", group)]

    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    monkeypatch.setattr(plugin, "reward_post_process", positional)
    found = list(row_differences(expected, slime_reading(recorded()), text))
    assert {difference.what for difference in found} == {"advantage"}


@pytest.mark.slime
def test_slime_s_own_code_gives_the_same_rows(recorded: Any, expected: Any) -> None:
    from backends.slime.parity_rows import read_rows
    from backends.slime.planning import make_plan

    fitted = recorded(global_batch_size=8)
    real = real_slime_reading(fitted)
    assert digest(real.rows) == digest(expected)
    plan = make_plan(fitted.planned)
    port = read_rows(fitted, plan.arguments, plan.sizes["model_copies"], real=False)
    assert sorted(port, key=lambda row: row.place) == sorted(real.rows, key=lambda row: row.place)
