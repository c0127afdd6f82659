"""Compares what a program wrote or returned with what was expected."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any


def same_output(given: str, expected: str, tolerance: float | None = None) -> bool:
    """Whether two outputs are the same, line by line.

    A stretch of white space counts as one space, and as none at the ends of a line and of the text.

    Args:
        given: What a program wrote.
        expected: What it had to write.
        tolerance: By how much numbers may differ, relatively and absolutely; None compares text.
    """
    left, right = _lines(given), _lines(expected)
    if tolerance is None or len(left) != len(right):
        return left == right
    return all(
        len(one) == len(other) and all(map(_same_word(tolerance), one, other))
        for one, other in zip(left, right, strict=True)
    )


def same_value(given: Any, expected: Any, tolerance: float | None = None) -> bool:
    """Whether a value is the one that JSON says was expected.

    A tuple is a list there, and every key text. As in APPS, where a list of one value is expected,
    the value itself will do.

    Args:
        given: A plain value.
        expected: A JSON value.
        tolerance: By how much floats may differ, relatively and absolutely.
    """
    value = _as_json(given)
    single = expected[0] if isinstance(expected, list) and len(expected) == 1 else expected
    return _same(value, expected, tolerance) or _same(value, single, tolerance)


def _lines(text: str) -> list[list[str]]:
    lines = [line.split() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_word(tolerance: float) -> Any:
    def same(one: str, other: str) -> bool:
        if one == other:
            return True
        try:
            return _close(float(one), float(other), tolerance)
        except ValueError:
            return False

    return same


def _as_json(value: Any) -> Any:
    if isinstance(value, list | tuple | deque):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {_key(key): _as_json(item) for key, item in value.items()}
    return value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _same(value: Any, expected: Any, tolerance: float | None) -> bool:
    if isinstance(expected, list) and isinstance(value, list):
        pairs = zip(value, expected, strict=False)
        return len(value) == len(expected) and all(_same(a, b, tolerance) for a, b in pairs)
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        return value.keys() == expected.keys() and all(
            _same(value[key], expected[key], tolerance) for key in expected
        )
    if tolerance is not None and _is_number(value) and _is_number(expected):
        return _close(value, expected, tolerance)
    return bool(value == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(one: float, other: float, tolerance: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
