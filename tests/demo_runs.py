"""The calculator example's model, made by its own script, and small runs over it."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from retrain.config import RunConfig

EXAMPLE = Path(__file__).parents[1] / "examples" / "calculator"


def make_demo_model(folder: Path) -> Path:
    """Write the model: random weights, a byte-level tokenizer and a chat template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["make_model.py", "--output", str(folder)])
        patch.syspath_prepend(str(EXAMPLE))
        patch.delitem(sys.modules, "tasks", raising=False)
        runpy.run_path(str(EXAMPLE / "make_model.py"), run_name="__main__")
        sys.modules.pop("tasks")
    return folder


def small_run(
    model: Path,
    output: Path,
    environment: str,
    *,
    backend: str,
    algorithm: str = "grpo",
    hyper: Mapping[str, Any],
    sections: Mapping[str, Any] | None = None,
) -> RunConfig:
    """A run over seven tasks, in iterations of three groups of four short episodes.

    Args:
        model: The model's folder.
        output: The run folder.
        environment: Its import path.
        backend: Who trains.
        algorithm: How.
        hyper: Hyperparameters; `num_iterations` at least.
        sections: Further sections, or others in the place of these.
    """
    defaults = {
        "rollout_batch_size": 3,
        "n_samples_per_prompt": 4,
        "learning_rate": 1e-3,
        "max_response_len": 60,
        "max_tokens_per_turn": 12,
    }
    return RunConfig.model_validate(
        {
            "experiment_name": environment.partition(":")[0],
            "seed": 5,
            "output_dir": str(output),
            "model": {"name_or_path": str(model), "threads": 1},
            "environment": {"type": environment},
            "prompt_source": {
                "type": "list",
                "source_config": {"items": [f"task number {n}" for n in range(7)]},
            },
            "algorithm": {
                "name": algorithm,
                "backend": backend,
                "hyperparameters": {**defaults, **hyper},
            },
            **(sections or {}),
        }
    )
