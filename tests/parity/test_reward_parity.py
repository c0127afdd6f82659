"""Rewards by component, their combination and normalisation: the same on every backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from readings import real_slime_reading, record, rows_of, slime_reading, text, trl_reading
from reward_world import SETUP

from retrain.compose import compose
from retrain.config import RunConfig
from retrain.parity import LossReading, Recorded, read_recorded, row_differences

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'retrain[trl]'")

NAMES = {"environment", "letters", "flaky", "by_tokens", "by_mask", "best"}


@pytest.fixture(scope="module")
def rewarded(parity_config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Two iterations of two groups, recorded under the rewards of `reward_world`."""
    document = parity_config.model_dump(mode="json")
    document["reward_setup"] = SETUP
    document["algorithm"]["hyperparameters"] |= {"rollout_batch_size": 2, "global_batch_size": 8}
    config = RunConfig.model_validate(document)
    return read_recorded(config, record(config, tmp_path_factory.mktemp("rewards") / "a.tape"))


@pytest.fixture(scope="module")
def settled(rewarded: Recorded) -> Any:
    """The rows that the recording gives, its rewards normalised batch by batch."""
    composition = compose(rewarded.config)
    return rows_of(composition.data_format, rewarded.settled(composition.rewards.settle))


def require_same(rows: Any, reading: LossReading) -> None:
    assert [str(difference) for difference in row_differences(rows, reading, text)] == []
    assert all(row.rewards is not None for row in reading.rows)


def test_both_backends_compute_the_rewards_of_the_tape(
    rewarded: Recorded, settled: Any, monkeypatch: Any
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    known = [row for row in settled if row.rewards]
    assert len(settled) == 16 and len(known) >= 8
    assert {name for row in known for name in row.rewards} >= NAMES | {
        "trained on",
        "letters, normalised",
        "by_tokens, normalised",
        "by_mask, normalised",
        "best, normalised",
    }
    assert any(row.rewards["flaky"] == -1.0 for row in known if "flaky" in row.rewards)
    assert any("flaky" not in row.rewards for row in known)
    assert len({row.advantage for row in known}) > 6
    require_same(settled, trl_reading(rewarded))
    require_same(settled, slime_reading(rewarded))


def test_a_component_that_differs_is_named(
    rewarded: Recorded, settled: Any, monkeypatch: Any
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    reading = slime_reading(rewarded)
    rows = [
        replace(row, rewards={**row.rewards, "best": 7.0}) if row.index == 5 else row
        for row in reading.rows
    ]
    if "best" not in next(row.rewards for row in settled if row.index == 5):
        pytest.fail("sample 5 has failed; take another one")
    (found,) = row_differences(settled, replace(reading, rows=tuple(rows)), text)
    assert (found.index, found.what) == (5, "rewards")
    assert found.found == "best 7.0" and found.expected.startswith("best ")


@pytest.mark.slime
def test_slime_s_own_code_gives_the_same_rewards(rewarded: Recorded, settled: Any) -> None:
    require_same(settled, real_slime_reading(rewarded))
    require_same(settled, trl_reading(rewarded))
