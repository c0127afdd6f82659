"""What of a configuration shows images, and why it cannot, told before anything is trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.base import Problem
from retrain.compose import make_tasks, make_vision
from retrain.config import PromptSourceConfig, RunConfig
from retrain.environment.declared import declares
from retrain.errors import RetrainError
from retrain.vision import NoVision

SHOWS_IMAGES = "shows_images"
_READ_HERE = ("list", "jsonl", "dataset")
"""The prompt sources that are looked into; an environment says of itself what it shows."""


def image_problems(
    config: RunConfig, refused: Mapping[str, tuple[bool, str]] | None = None
) -> list[Problem]:
    """What stands in the way of a run's images; nothing where it shows none.

    Args:
        config: The run.
        refused: Key to whether a backend refuses images for it, and why.
    """
    shown = what_shows_images(config)
    if shown is None:
        return []
    found = [
        Problem(key, f"{shown}, and {reason}")
        for key, (no, reason) in (refused or {}).items()
        if no
    ]
    if config.algorithm.name == "sft":
        found.append(
            Problem(
                "algorithm.name",
                f"{shown}, and sft writes demonstrations of text only; train with grpo, or leave "
                "the images out",
            )
        )
    vision = make_vision(config)
    if isinstance(vision, NoVision):
        found.append(Problem("model.name_or_path", f"{shown}, and {vision.reason}"))
    return found


def what_shows_images(config: RunConfig) -> str | None:
    """What shows images: the tasks or the environment, in words; None where nothing does."""
    sources = {"prompt_source": config.prompt_source}
    if config.evaluation is not None:
        sources["evaluation.prompt_source"] = config.evaluation.prompt_source
    for key, source in sources.items():
        task = _first_with_images(config, source)
        if task is not None:
            return f"task {task!r} of {key} shows images"
    section = config.environment
    if declares(SHOWS_IMAGES, section.type, section.env_specific_config):
        return f"environment.type: {section.type!r} shows images"
    return None


def _first_with_images(config: RunConfig, source: PromptSourceConfig) -> str | None:
    """The id of the first task that shows images; None also where the source cannot be read.

    Of a dataset the first row tells, since all rows have the same columns.
    """
    if source.type not in _READ_HERE or not _may_name_images(config.base_dir, source):
        return None
    if source.type == "dataset":
        limited: Mapping[str, Any] = {"source_config": {**source.source_config, "limit": 1}}
        source = source.model_copy(update=limited)
    try:
        tasks = make_tasks(config, source)
    except RetrainError:
        return None
    shows = (task.id for task in tasks if any(message.images for message in task.messages))
    return next(shows, None)


def _may_name_images(base: Path, source: PromptSourceConfig) -> bool:
    """Whether the rows hold the word at all, so that text is not parsed twice."""
    given = source.source_config
    words = ('"image', json.dumps(given.get("images_key", "images")))
    if source.type == "dataset":
        return True
    if source.type == "list":
        text = json.dumps(given.get("items"), default=str)
        return any(word in text for word in words)
    try:
        with (base / str(given.get("path"))).open(encoding="utf-8", errors="replace") as lines:
            return any(word in line for line in lines for word in words)
    except OSError:
        return False
