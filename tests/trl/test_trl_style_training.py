"""A TRL environment and TRL reward functions, brought unchanged, trained by TRL through retrain."""

from __future__ import annotations

from typing import Any

import pytest

from backends.trl.backend import TRLBackend

pytestmark = pytest.mark.slow


def test_a_trl_environment_trains_by_its_import_path(config: Any, spy: Any) -> None:
    rows = [
        {"prompt": [{"role": "user", "content": f"row {n}."}], "start": n, "goal": 50}
        for n in range(4)
    ]
    overlong = {"max_completion_len": 60, "soft_punish_cache": 50}
    made = config(
        num_iterations=1,
        sections={
            "environment": {"type": "trl_style_environments:Account"},
            "prompt_source": {"type": "list", "source_config": {"items": rows}},
            "reward_setup": {
                "rollout_reward_configs": {
                    "trl_style_environments:length": {"weight": 0.5},
                    "trl_style_environments:told_errors": {},
                    "trl.rewards:get_soft_overlong_punishment": {"params": overlong},
                }
            },
        },
    )
    backend = TRLBackend()
    backend.train(backend.plan(made))

    collected = [row for batch in spy.batches for row in batch.samples()]
    assert len(collected) == 12
    for sample in collected:
        start, size = sample.metadata["start"], sample.response_length
        rewards = sample.metadata["retrain"]["trajectory"]["rewards"]
        assert rewards == {
            "environment": pytest.approx(-abs(50 - start) / 100),
            "length": pytest.approx(size / 100 + 50),
            "get_soft_overlong_punishment": pytest.approx(min(0, 10 - size) / 50),
        }
        assert sample.reward == pytest.approx(
            rewards["environment"]
            + 0.5 * rewards["length"]
            + rewards["get_soft_overlong_punishment"]
        )
