from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model, small_run
from readings import record, rows_of

from retrain.compose import compose
from retrain.config import RunConfig
from retrain.parity import Recorded, read_recorded


@pytest.fixture(scope="session")
def parity_config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A world with failures and replies of many lengths, over the demo's model."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    folder = tmp_path_factory.mktemp("parity")
    return small_run(
        make_demo_model(folder / "model"),
        folder / "run",
        "parity_world:World",
        backend="trl",
        hyper={"num_iterations": 3, "rollout_batch_size": 4, "max_response_len": 90},
    )


@pytest.fixture(scope="session")
def parity_tape(parity_config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four groups of four episodes of the model itself; some fail."""
    return record(parity_config, tmp_path_factory.mktemp("tape") / "a.tape")


@pytest.fixture
def recorded(parity_config: RunConfig, parity_tape: Path) -> Callable[..., Recorded]:
    """Fits the configuration to the tape; keyword arguments are hyperparameters."""

    def make(**hyper: Any) -> Recorded:
        algorithm = parity_config.algorithm
        changed = algorithm.hyperparameters.model_copy(update=hyper)
        algorithm = algorithm.model_copy(update={"hyperparameters": changed})
        return read_recorded(parity_config.model_copy(update={"algorithm": algorithm}), parity_tape)

    return make


@pytest.fixture
def expected(recorded: Callable[..., Recorded]) -> Any:
    """The rows that the recording itself gives."""
    found = recorded()
    return rows_of(compose(found.config).data_format, found.groups)
