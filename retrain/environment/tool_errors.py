"""What an exception in a tool becomes: words that the model reads, or the end of its episode."""

from __future__ import annotations

import asyncio
from concurrent.futures import BrokenExecutor
from enum import StrEnum


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong ("division by zero").

    Its message becomes the tool's answer, whatever `tool_errors` says.
    """


class ToolErrors(StrEnum):
    """What the model reads of any other exception that a tool raises.

    `message` tells it the exception's type and message, `type` its type alone, for messages that
    would show paths, addresses or data; with `fail` the episode fails at the boundary `tool`.
    """

    MESSAGE = "message"
    TYPE = "type"
    FAIL = "fail"


INFRASTRUCTURE = (ConnectionError, TimeoutError, MemoryError, BrokenExecutor, ImportError)
"""Exceptions that say nothing about the call: the model cannot learn from them."""

_EXITS = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)


def error_text(error: BaseException | None, policy: ToolErrors) -> str | None:
    """What the model reads of an exception in a tool; None where the episode fails.

    Args:
        error: What the tool raised; None where it raised nothing and is late.
        policy: What is told of exceptions other than `ToolError`.
    """
    if isinstance(error, ToolError):
        return f"Error: {error}"
    if policy is ToolErrors.FAIL or not isinstance(error, Exception) or _is_infrastructure(error):
        return None
    name = type(error).__name__
    return f"Error: {name}: {error}" if policy is ToolErrors.MESSAGE else f"Error: {name}"


def _is_infrastructure(error: Exception) -> bool:
    return isinstance(error, INFRASTRUCTURE) or isinstance(error.__cause__, _EXITS)
