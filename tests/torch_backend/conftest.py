from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model, small_run

from retrain.config import RunConfig

pytest.importorskip("torch", reason="needs torch: pip install 'retrain[torch]'")


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, with random weights."""
    return make_demo_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def config(model_dir: Path, tmp_path: Path) -> Callable[..., RunConfig]:
    """Makes a configuration of an arithmetic game; keyword arguments are hyperparameters."""

    def make(**hyper: Any) -> RunConfig:
        return small_run(
            model_dir,
            tmp_path / "run",
            "native_world:NativeWorld",
            backend=hyper.pop("backend", "torch"),
            algorithm=hyper.pop("name", "grpo"),
            sections=hyper.pop("sections", {}),
            hyper={"num_iterations": 4, **hyper},
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
