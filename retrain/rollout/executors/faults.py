"""Failures as they cross a process: the same class, the same message, the worker's traceback."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from retrain.errors import (
    ConfigError,
    DataError,
    EngineFailure,
    EnvironmentFailure,
    MissingDependency,
    RenderingFailure,
    RetrainError,
    RewardFailure,
    ToolFailure,
)

_KINDS: Mapping[str, type[RetrainError]] = {
    kind.__name__: kind
    for kind in (
        ConfigError,
        DataError,
        MissingDependency,
        EnvironmentFailure,
        ToolFailure,
        EngineFailure,
        RewardFailure,
        RenderingFailure,
    )
}


def describe_fault(error: RetrainError) -> dict[str, str]:
    """A failure as JSON.

    Args:
        error: Of the classes that an environment may raise; another one becomes the nearest of its
            base classes.
    """
    names = (base.__name__ for base in type(error).__mro__)
    return {
        "kind": next((name for name in names if name in _KINDS), EnvironmentFailure.__name__),
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def rebuild_fault(described: Mapping[str, Any], worker: str) -> RetrainError:
    """The failure that `describe_fault` described.

    Args:
        described: What it made.
        worker: Which worker it comes from, for the note that holds the traceback.
    """
    error = _KINDS[described["kind"]](described["message"])
    error.add_note(f"In {worker}:\n{described['traceback']}")
    return error
