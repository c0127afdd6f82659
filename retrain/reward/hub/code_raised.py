"""Exceptions on their way between two processes: what is left is a standard class and a text."""

from __future__ import annotations

import builtins
from typing import Any

MOST_SAID = 500
"""Most characters of an exception's text."""


def standard_class(kind: type[BaseException]) -> type[BaseException]:
    """The nearest exception class that Python itself has, and that does not end a process."""
    return next(
        (base for base in kind.__mro__ if _is_standard_class(base.__name__, base)), RuntimeError
    )


def exception_class(name: str) -> type[Exception]:
    """The standard class of that name; RuntimeError where there is none."""
    kind = getattr(builtins, name, None)
    return kind if _is_standard_class(name, kind) else RuntimeError  # type: ignore[return-value]


def _is_standard_class(name: str, kind: Any) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and getattr(builtins, name, None) is kind
    )


def text_of(error: BaseException) -> str:
    """What an exception says, at most 500 characters of it."""
    try:
        return str(error)[:MOST_SAID]
    except Exception:  # noqa: BLE001 - a program's own class may do anything
        return ""
