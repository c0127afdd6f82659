"""What a plan says of how batches are collected."""

from __future__ import annotations

from typing import Any

import pytest

from backends.base import Plan
from retrain.cli.collecting import explained_collecting
from retrain.config import RunConfig

ON_SLIME = {"backend": "slime", "hyperparameters": {"num_iterations": 2, "slime_train_async": True}}


def said(rollout: dict[str, Any] | None = None, **algorithm: Any) -> dict[str, str]:
    config = RunConfig.model_validate(
        {
            "experiment_name": "calculator",
            "model": {"name_or_path": "m"},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": ["1 + 1"]}},
            "rollout": rollout or {},
            "algorithm": {
                "name": "grpo",
                "backend": "trl",
                "hyperparameters": {"num_iterations": 2},
                **algorithm,
            },
        }
    )
    return explained_collecting(Plan("trl", config, "trl.GRPOTrainer", {}))


def test_without_the_keys_one_line_says_it() -> None:
    assert said() == {"groups in play": "8 = rollout_batch_size, all waited for"}


def test_every_key_of_over_sampling_is_told() -> None:
    told = said(
        {
            "over_sampling_factor": 1.3,
            "filter": "check_any_success",
            "filter_fallback": True,
            "max_refills": 2.1,
            "buffer_filter": "oldest_first",
            "max_staleness": 2,
            "mask_stale_tokens": True,
        }
    )
    assert told == {
        "groups in play": "11 = rollout_batch_size 8 x over_sampling_factor 1.3; the first 8 to "
        "finish are taken",
        "filter": '"check_any_success"; a batch that drops more than 17 groups falls back to '
        "dropped ones",
        "half-played groups": "go on in the next iteration, oldest_first",
        "older weights": "at most 2 updates, then begun again; their tokens are masked",
    }


@pytest.mark.parametrize(
    ("rollout", "algorithm", "key", "words"),
    [
        (
            {"over_sampling_factor": 2.0, "partial": False},
            {},
            "half-played groups",
            "given up when the batch is full, and counted",
        ),
        ({}, ON_SLIME, "next batch", "collected while this one is trained on"),
        ({"owner": "slime"}, ON_SLIME, "filled by", "slime's own rollout manager"),
    ],
)
def test_each_way_to_collect_has_its_words(
    rollout: dict[str, Any], algorithm: dict[str, Any], key: str, words: str
) -> None:
    assert words in said(rollout, **algorithm)[key]


def test_supervised_training_collects_nothing() -> None:
    assert said(name="sft", hyperparameters={"num_iterations": 2}) == {}
