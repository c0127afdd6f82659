"""How the suites say what is wrong: what was expected, and what came, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import pytest

from retrain.errors import RetrainError

Decode = Callable[[Sequence[int]], str]

_AROUND = 12
"""Tokens that are shown before and after the first differing one."""


def fail(what: str, *, expected: object, came: object) -> NoReturn:
    """Fail the running test.

    Args:
        what: What is wrong, as a sentence without its full stop.
        expected: What should have come; text stands as it is.
        came: What came.
    """
    __tracebackhide__ = True
    pytest.fail(f"{what}\n  expected: {_text(expected)}\n  came:     {_text(came)}", pytrace=False)


def require(holds: bool, what: str, *, expected: object, came: object) -> None:
    """Fail the running test unless something holds; see `fail`."""
    __tracebackhide__ = True
    if not holds:
        fail(what, expected=expected, came=came)


def raised(what: str, error: BaseException, *, expected: object) -> NoReturn:
    """Fail the running test because of an exception.

    Args:
        what: What was being done.
        error: What it raised.
        expected: What should have come.
    """
    __tracebackhide__ = True
    fail(what, expected=expected, came=described(error))


def described(error: BaseException) -> str:
    """An exception in a line; retrain's own already say everything."""
    kind = "" if isinstance(error, RetrainError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    """Where two sequences first differ; None where they are equal."""
    if tuple(one) == tuple(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def require_unchanged(what: str, before: object, now: object) -> None:
    """Fail the running test where a value is no longer what it was, naming the part.

    Args:
        what: What the value is.
        before: A copy from before.
        now: The value.
    """
    __tracebackhide__ = True
    if now != before:
        path, was, came = _first_change(before, now, what)
        fail(f"{path} was changed", expected=was, came=came)


def _first_change(one: Any, other: Any, path: str) -> tuple[str, object, object]:
    """The innermost part in which two values differ, by its path."""
    for name, was, came in _parts(one, other):
        if was != came:
            return _first_change(was, came, f"{path}{name}")
    return path, one, other


def _parts(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if type(one) is not type(other):
        return
    if is_dataclass(one):
        for field in fields(one):
            yield f".{field.name}", getattr(one, field.name), getattr(other, field.name)
    elif isinstance(one, Mapping) and one.keys() == other.keys():
        for key in one:
            yield f"[{key!r}]", one[key], other[key]
    elif isinstance(one, list | tuple) and len(one) == len(other):
        for number, (was, came) in enumerate(zip(one, other, strict=True)):
            yield f"[{number}]", was, came


def shown(ids: Sequence[int], at: int, decode: Decode) -> str:
    """The tokens around a position: their ids and their text.

    Args:
        ids: The whole sequence.
        at: The position.
        decode: Gives the text of ids.
    """
    if at >= len(ids):
        return f"the end after {len(ids)} tokens, behind {decode(list(ids[-_AROUND:]))!r}"
    around = list(ids[max(at - _AROUND, 0) : at + _AROUND])
    return f"{ids[at]}, which is {decode([ids[at]])!r}, in {decode(around)!r}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else _brief(value)


def _brief(value: Any) -> str:
    """Like `repr`, without the fields of a dataclass that have their default."""
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(_brief, value))}{',' * (len(value) == 1)})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    told = [
        f"{field.name}={_brief(getattr(value, field.name))}"
        for field in fields(value)
        if field.repr and getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(told)})"
