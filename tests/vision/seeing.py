"""Configurations and episodes of a tiny model that reads images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from retrain.config import RunConfig
from retrain.rollout.request import GroupRequest
from retrain.types import Task


def see_config(model: Path, run: Path, items: list[Any], **sections: Any) -> RunConfig:
    """Two turns an episode, two episodes a task."""
    hyper = {
        "num_iterations": 1,
        "rollout_batch_size": 2,
        "n_samples_per_prompt": 2,
        "max_response_len": 64,
        "max_tokens_per_turn": 5,
        "learning_rate": 1e-3,
        **sections.pop("hyper", {}),
    }
    algorithm = {"name": "grpo", "backend": "trl", **sections.pop("algorithm", {})}
    document: dict[str, Any] = {
        "experiment_name": "see",
        "seed": 3,
        "output_dir": str(run),
        "model": {"name_or_path": str(model), "threads": 1},
        "environment": {"type": "looking:Looking"},
        "prompt_source": {"type": "list", "source_config": {"items": items}},
        "reward_setup": {"rollout_reward_configs": {"looking:some_reward": {}}},
        "algorithm": {**algorithm, "hyperparameters": hyper},
        **sections,
    }
    return RunConfig.model_validate(document)


def items_of(noisy: str, red: str) -> list[Any]:
    """A task with two pictures, one whose picture comes later, and one without any."""
    return [
        {"id": "two", "prompt": "This <image> or <image>?", "images": [noisy, red], "next": red},
        {"id": "later", "prompt": "Wait.", "next": noisy},
        {"id": "text", "prompt": "Hello."},
    ]


def requests_of(tasks: tuple[Task, ...]) -> list[GroupRequest]:
    """A group for each task."""
    return [GroupRequest(index, task, 0) for index, task in enumerate(tasks)]
