"""`slime_train_async` and `rollout.asynchronous` are one key, and a resolved file says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retrain.config import RunConfig, dump_config, load_config
from retrain.errors import ConfigError

SLIME: dict[str, Any] = {
    "experiment_name": "calculator",
    "model": {"name_or_path": "m"},
    "environment": {"type": "calculator"},
    "prompt_source": {"type": "list", "source_config": {"items": ["1 + 1"]}},
    "reward_setup": {"rollout_reward_configs": {"environment": {}}},
    "algorithm": {
        "name": "grpo",
        "backend": "slime",
        "hyperparameters": {"num_iterations": 2, "slime_train_async": True},
    },
}


def on(backend: str, **sections: Any) -> dict[str, Any]:
    return {**SLIME, "algorithm": {**SLIME["algorithm"], "backend": backend}, **sections}


def test_the_resolved_file_of_an_asynchronous_run_says_so(tmp_path: Path) -> None:
    config = RunConfig.model_validate(SLIME)
    assert config.rollout.asynchronous and config.asynchronous
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config))
    assert "asynchronous: true" in path.read_text()
    assert load_config(path).rollout.asynchronous


def test_it_says_nothing_to_another_backend() -> None:
    assert not RunConfig.model_validate(on("trl")).rollout.asynchronous


def test_a_stage_on_another_backend_is_not_asynchronous() -> None:
    stages = [{"name": "a"}, {"name": "b", "algorithm": {"backend": "trl"}}]
    config = RunConfig.model_validate({**SLIME, "stages": stages})
    found = [stage.rollout.asynchronous for _, stage in config.stage_configs()]
    assert found == [True, False]


def test_the_two_cannot_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(RunConfig.model_validate(SLIME)))
    with pytest.raises(ConfigError, match=r"true contradicts rollout\.asynchronous: false"):
        load_config(path, ["rollout.asynchronous=false"])
