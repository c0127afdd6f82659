from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model, small_run

from retrain.config import RunConfig

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, with random weights."""
    return make_demo_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def config(model_dir: Path, tmp_path: Path) -> Callable[..., RunConfig]:
    """Makes a configuration of the `noisy` environment; keyword arguments are hyperparameters."""

    def make(**hyper: Any) -> RunConfig:
        return small_run(
            model_dir,
            tmp_path / "run",
            "noisy_environment:Noisy",
            backend="trl",
            algorithm=hyper.pop("name", "grpo"),
            sections=hyper.pop("sections", {}),
            hyper={"num_iterations": 2, **hyper},
        )

    return make


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Records what enters the real loss, and the rows that we gave, micro-batch by micro-batch."""
    from loss_spy import LossSpy

    recorder = LossSpy()
    recorder.install(monkeypatch)
    yield recorder
