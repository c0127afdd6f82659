from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrain.config import RunConfig
from retrain.parity import Recorded, read_recorded

EXAMPLE = Path(__file__).parents[2] / "examples" / "calculator"


@pytest.fixture(scope="session")
def parity_config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A world with failures and replies of many lengths, over the demo's model."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    folder = tmp_path_factory.mktemp("parity")
    script = [sys.executable, str(EXAMPLE / "make_model.py"), "--output", str(folder / "model")]
    subprocess.run(script, check=True, capture_output=True)
    hyper = {
        "num_iterations": 3,
        "rollout_batch_size": 4,
        "n_samples_per_prompt": 4,
        "max_response_len": 90,
        "max_tokens_per_turn": 12,
    }
    return RunConfig.model_validate(
        {
            "experiment_name": "parity",
            "seed": 5,
            "output_dir": str(folder / "run"),
            "model": {"name_or_path": str(folder / "model"), "threads": 1},
            "environment": {"type": "parity_world:World"},
            "prompt_source": {
                "type": "list",
                "source_config": {"items": [f"task number {n}" for n in range(7)]},
            },
            "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": hyper},
        }
    )


@pytest.fixture(scope="session")
def parity_tape(parity_config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four groups of four episodes of the model itself; some fail."""
    from retrain.cli.rollout_playing import play_configured
    from retrain.compose import compose, make_buffer, make_tasks

    requests = make_buffer(parity_config, make_tasks(parity_config)).draw(4)
    path = tmp_path_factory.mktemp("tape") / "a.tape"
    play_configured(compose(parity_config), "transformers", requests, 4, tape=path)
    return path


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
    from retrain.compose import compose
    from retrain.parity.report import expected_rows

    found = recorded()
    data_format = compose(found.config).data_format
    return expected_rows(
        slot for group in found.groups for slot in data_format.group_samples(group)
    )
