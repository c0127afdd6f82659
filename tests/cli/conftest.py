from __future__ import annotations

from pathlib import Path

import pytest
from cli_workspace import TASKS, Workspace, write_rows
from demo_runs import make_demo_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator example's own model, made by its own script."""
    return make_demo_model(tmp_path_factory.mktemp("cli") / "model")


@pytest.fixture
def workspace(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_rows(tmp_path / "tasks.jsonl", TASKS)
    return Workspace(
        tmp_path,
        {
            "experiment_name": "tiny",
            "output_dir": "run",
            "model": {"name_or_path": str(tiny_model), "threads": 1},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "jsonl", "source_config": {"path": "tasks.jsonl"}},
            "algorithm": {
                "name": "grpo",
                "backend": "trl",
                "hyperparameters": {
                    "num_iterations": 2,
                    "rollout_batch_size": 2,
                    "n_samples_per_prompt": 2,
                    "max_response_len": 24,
                    "save_interval": 1,
                },
            },
        },
    )
