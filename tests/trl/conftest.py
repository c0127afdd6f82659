from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

EXAMPLE = Path(__file__).parents[2] / "examples" / "calculator"


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, with random weights."""
    folder = tmp_path_factory.mktemp("model")
    script = [sys.executable, str(EXAMPLE / "make_model.py"), "--output", str(folder)]
    subprocess.run(script, check=True, capture_output=True)
    return folder


@pytest.fixture
def config(model_dir: Path, tmp_path: Path) -> Callable[..., Any]:
    """Makes a configuration of the `noisy` environment; keyword arguments are hyperparameters."""
    from retrain.config import RunConfig

    def make(**hyper: Any) -> RunConfig:
        name = hyper.pop("name", "grpo")
        sections = hyper.pop("sections", {})
        defaults = {
            "num_iterations": 2,
            "rollout_batch_size": 3,
            "n_samples_per_prompt": 4,
            "learning_rate": 1e-3,
            "max_response_len": 60,
            "max_tokens_per_turn": 12,
        }
        return RunConfig.model_validate(
            {
                "experiment_name": "noisy",
                "seed": 5,
                "output_dir": str(tmp_path / "run"),
                "model": {"name_or_path": str(model_dir), "threads": 1},
                "environment": {"type": "noisy_environment:Noisy"},
                "prompt_source": {
                    "type": "list",
                    "source_config": {"items": [f"task number {i}" for i in range(7)]},
                },
                "algorithm": {
                    "name": name,
                    "backend": "trl",
                    "hyperparameters": {**defaults, **hyper},
                },
                **sections,
            }
        )

    return make


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Records what enters the real loss, and the rows that we gave, micro-batch by micro-batch."""
    from loss_spy import LossSpy

    recorder = LossSpy()
    recorder.install(monkeypatch)
    yield recorder
