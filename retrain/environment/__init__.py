"""Environments: what the world says back, and the tools in it.

The names below are loaded when they are first used, so that importing `retrain` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from retrain.environment.base import Environment, ToolSchema

if TYPE_CHECKING:
    from retrain.environment.registry import ENVIRONMENTS, make_environment_factory
    from retrain.environment.synchronous import adapt
    from retrain.environment.tool_environment import ToolEnvironment
    from retrain.environment.tools import Tool, ToolError, tool

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "Tool",
    "ToolEnvironment",
    "ToolError",
    "ToolSchema",
    "adapt",
    "make_environment_factory",
    "tool",
]

_HOME = {
    "ENVIRONMENTS": "registry",
    "Tool": "tools",
    "ToolEnvironment": "tool_environment",
    "ToolError": "tools",
    "adapt": "synchronous",
    "make_environment_factory": "registry",
    "tool": "tools",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
