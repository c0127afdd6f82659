"""The columns that `rollout_func` returns."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from backends.trl.batching import BatchFiller
from backends.trl.feed import RolloutFeed, as_columns, raw_reward
from retrain.errors import BackendFailure
from retrain.launch import Launch
from retrain.rollout.filling import OverSampling
from retrain.sample import Sample, Status


def sample(**fields: Any) -> Sample:
    base: dict[str, Any] = {
        "tokens": [1, 2, 3, 4, 5],
        "response_length": 3,
        "loss_mask": [1, 0, 1],
        "rollout_log_probs": [-0.5, 0.0, -0.25],
        "reward": 0.75,
        "status": Status.COMPLETED,
    }
    return Sample(**{**base, **fields})


def test_every_column_has_one_entry_per_row_and_full_length() -> None:
    rows = [
        sample(),
        sample(tokens=[9, 8], response_length=1, loss_mask=[1], rollout_log_probs=[-1.0]),
    ]
    columns = as_columns(rows)
    assert {len(column) for column in columns.values()} == {2}
    assert columns["prompt_ids"] == [[1, 2], [9]]
    assert columns["completion_ids"] == [[3, 4, 5], [8]]
    for name in ("env_mask", "logprobs"):
        lengths = [len(entry) for entry in columns[name]]
        assert lengths == [len(ids) for ids in columns["completion_ids"]], name
    extra = set(columns) - {"prompt_ids", "completion_ids", "logprobs", "env_mask"}
    assert all(name.startswith("retrain_") for name in extra)


def test_removed_row_has_no_reward() -> None:
    columns = as_columns([sample(), sample(remove_sample=True, loss_mask=[0, 0, 0])])
    assert columns["retrain_reward"] == [0.75, None]
    assert raw_reward(["a", "b"], columns["retrain_reward"], prompts=[]) == [0.75, None]


def test_another_number_of_rows_than_planned_is_refused() -> None:
    how = OverSampling(2)
    batches = BatchFiller(None, how, 4, None, Launch())  # type: ignore[arg-type]
    feed = RolloutFeed(
        batches,
        None,  # type: ignore[arg-type]
        Launch(),
        weights=nullcontext,
        on_groups=print,
    )
    with pytest.raises(BackendFailure, match=r"asked for 6 rows, .*batches of 2 groups of .* 4: 8"):
        feed([""] * 6, None)
