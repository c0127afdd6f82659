from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'retrain[torch]'")

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
    """Makes a configuration of an arithmetic game; keyword arguments are hyperparameters."""
    from retrain.config import RunConfig

    def make(**hyper: Any) -> RunConfig:
        backend, name = hyper.pop("backend", "torch"), hyper.pop("name", "grpo")
        sections = hyper.pop("sections", {})
        defaults = {
            "num_iterations": 4,
            "rollout_batch_size": 3,
            "n_samples_per_prompt": 4,
            "learning_rate": 1e-3,
            "max_response_len": 60,
            "max_tokens_per_turn": 12,
        }
        return RunConfig.model_validate(
            {
                "experiment_name": "native",
                "seed": 5,
                "output_dir": str(tmp_path / "run"),
                "model": {"name_or_path": str(model_dir), "threads": 1},
                "environment": {"type": "native_world:NativeWorld"},
                "prompt_source": {
                    "type": "list",
                    "source_config": {"items": [f"task number {i}" for i in range(7)]},
                },
                "algorithm": {
                    "name": name,
                    "backend": backend,
                    "hyperparameters": {**defaults, **hyper},
                },
                **sections,
            }
        )

    return make


@pytest.fixture
def samples() -> Callable[..., list[Any]]:
    """Makes samples of random tokens: rows of different lengths, the last one masked."""
    from retrain.sample import Sample, Status

    def make(count: int = 6, *, seed: int = 0, words: int = 90) -> list[Any]:
        rng = random.Random(seed)
        made = []
        for index in range(count):
            prompt, response = rng.randint(2, 9), rng.randint(2, 14)
            masked = index == count - 1
            mask = [0 if masked else int(rng.random() < 0.7) for _ in range(response)]
            made.append(
                Sample(
                    index=index,
                    rollout_id=index,
                    tokens=[rng.randrange(words) for _ in range(prompt + response)],
                    response_length=response,
                    loss_mask=mask,
                    rollout_log_probs=[-4.5 + rng.random() if m else 0.0 for m in mask],
                    advantage=0.0 if masked else rng.uniform(-1, 1),
                    reward=1.0,
                    remove_sample=masked,
                    status=Status.COMPLETED,
                )
            )
        return made

    return make
