from __future__ import annotations

import sys
from typing import Any

import pytest
from executed_episodes import as_bytes, requests
from seeded_episodes import SeededModel

from retrain.compose import Composition, compose_with, preview
from retrain.config import RunConfig
from retrain.errors import MissingDependency
from retrain.rendering import DeltaRenderer
from retrain.rollout.executors.base import LocalExecutor
from retrain.rollout.executors.pool import WorkerPool


def composed(renderer: DeltaRenderer, executor: Any, **rollout: Any) -> Composition:
    config = RunConfig.model_validate(
        {
            "experiment_name": "executors",
            "model": {"name_or_path": "none"},
            "environment": {
                "type": "executor_worlds:SteadyWorld",
                "env_specific_config": {"fails": 0.1},
            },
            "prompt_source": {"type": "list", "source_config": {"items": ["begin"]}},
            "rollout": {"executor": executor, "max_failure_rate": 1.0, **rollout},
            "algorithm": {
                "name": "grpo",
                "backend": "trl",
                "hyperparameters": {"num_iterations": 1, "n_samples_per_prompt": 2},
            },
        }
    )
    return compose_with(config, renderer)


async def test_one_key_moves_the_environments_and_changes_no_byte(renderer: DeltaRenderer) -> None:
    played = {}
    for executor in ("local", {"type": "process", "workers": 1, "episodes_per_worker": 3}):
        composition = composed(renderer, executor)
        try:
            bridge = composition.rollouts(SeededModel(renderer))
            played[str(executor)] = as_bytes(await bridge.collect(requests(4)))
        finally:
            composition.close()
    local, process = played.values()
    assert local == process


def test_an_executor_is_made_as_it_is_configured(renderer: DeltaRenderer) -> None:
    local = composed(renderer, "local").executor
    remote = composed(renderer, {"type": "process", "max_restarts": 7}, step_timeout=2.0)
    assert isinstance(local, LocalExecutor)
    assert isinstance(remote.executor, WorkerPool)
    assert remote.environment.limits.max_restarts == 7


async def test_a_dry_run_starts_no_worker(
    renderer: DeltaRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    composition = composed(renderer, "process")
    monkeypatch.setattr(WorkerPool, "crew", lambda pool: pytest.fail("a worker was asked for"))
    shown = await preview(composition, requests(1)[0].task)
    assert shown.trajectory is not None
    assert shown.trajectory.turns


async def test_where_ray_is_not_installed_the_command_that_brings_it_is_named(
    renderer: DeltaRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    composition = composed(renderer, {"type": "ray", "workers": 1})
    try:
        with pytest.raises(MissingDependency, match=r"pip install 'retrain\[ray\]'"):
            await composition.rollouts(SeededModel(renderer)).collect(requests(1))
    finally:
        composition.close()
