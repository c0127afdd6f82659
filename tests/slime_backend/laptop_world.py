"""Runs of slime's own train.py on the CPU: what they are configured to, and what they leave."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backends.slime.backend import SlimeBackend
from retrain.config import RunConfig
from retrain.report.result import RunResult

NAMED = bool(os.environ.get("RETRAIN_SLIME") and os.environ.get("RETRAIN_MEGATRON"))

MARKS = [
    pytest.mark.slime,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not NAMED, reason="set RETRAIN_SLIME and RETRAIN_MEGATRON to checkouts"),
]

TASKS = 7
"""How many tasks there are; no multiple of the batch."""

HYPER = {
    "num_iterations": 3,
    "rollout_batch_size": 4,
    "n_samples_per_prompt": 4,
    "learning_rate": 1e-3,
    "max_tokens_per_turn": 8,
    "max_response_len": 64,
    "save_interval": 1,
}


@dataclass(frozen=True)
class Loop:
    """A run that has ended; `left` are its processes that had not when it returned."""

    config: RunConfig
    result: RunResult
    left: list[str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return read(self.result.run_dir / "metrics.jsonl")

    def samples(self, iteration: int) -> list[dict[str, Any]]:
        return read(self.result.run_dir / "samples" / f"{iteration}.jsonl")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def left_of(run: Path) -> list[str]:
    """Processes that were started for a run: it stands in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(run).encode() in said:
            found.append(process.name)
    return found


def wait_until_nothing_is_left(run: Path, seconds: float = 60) -> None:
    """Fail where processes outlive a run; those that are ending get their time."""
    deadline = time.monotonic() + seconds
    while left := left_of(run):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.5)


def laptop_config(run: Path, model: Path, hyper: Mapping[str, Any], **sections: Any) -> RunConfig:
    """A run over `plugin_world`; `sections` are the configuration's besides."""
    items = [f"question {number}" for number in range(TASKS)]
    return RunConfig.model_validate(
        {
            "experiment_name": "laptop",
            "seed": 5,
            "output_dir": str(run),
            "model": {"name_or_path": str(model), "threads": 1},
            "environment": {"type": "plugin_world:World"},
            "prompt_source": {"type": "list", "source_config": {"items": items}},
            "slime_laptop": {},
            "cluster": {"python_path": [str(Path(__file__).parent)]},
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": {**HYPER, **hyper},
            },
            **sections,
        }
    )


def train(config: RunConfig, *, resume: bool = False) -> Loop:
    backend = SlimeBackend()
    result = backend.train(backend.plan(config), resume=resume)
    return Loop(config, result, left_of(config.output_dir))
