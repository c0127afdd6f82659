"""Episodes of several samples in slime's lists.

slime flattens a rollout by the look of its first item (`_get_rollout_data` in
`slime/ray/rollout.py`), so either every item is a list of samples or none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.config import RunConfig
from retrain.environment.rewriting import rewrites_history


def gives_segments(config: RunConfig) -> str | None:
    """What of a configuration can give episodes of several segments, in words; None where nothing.

    Args:
        config: The run.
    """
    if config.rendering.history == "template":
        return "rendering.history: template"
    section = config.environment
    rewrites = rewrites_history(section.type, section.env_specific_config)
    return f"an environment that rewrites its history ({section.type})" if rewrites else None


def evenly_nested(groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The groups of one rollout with items of one shape: lists wherever one of them is a list."""
    items = (item for group in groups for item in group)
    if not any(isinstance(item, list) for item in items):
        return [[*group] for group in groups]
    return [[as_list(item) for item in group] for group in groups]


def as_list(item: Any) -> list[Any]:
    """An episode as a list of its samples."""
    return item if isinstance(item, list) else [item]
