"""The rules behind the built-in rewards: text and label to 1.0 or 0.0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from retrain.reward.answers import last_number, number_of, same_number
from retrain.types import ToolCall


def exact_match(text: str, label: Any, ignore_case: bool) -> float:
    """Whether a text is the label, white space around both aside.

    Raises:
        ValueError: There is no label.
    """
    return float(_fold(text, ignore_case) == _fold(_label_text(label), ignore_case))


def substring_match(text: str, expected: Any, ignore_case: bool) -> float:
    """Whether a text contains what is expected.

    Raises:
        ValueError: Nothing is expected, or an empty text, which everything contains.
    """
    wanted = _fold(_label_text(expected), ignore_case)
    if not wanted:
        raise ValueError("substring_match needs a label or `substring` that is not empty")
    return float(wanted in _fold(text, ignore_case))


def numeric_match(text: str, label: Any, tolerance: float) -> float:
    """Whether a text's last number is the label's.

    Raises:
        ValueError: The label holds no number.
    """
    expected = number_of(label)
    if expected is None:
        raise ValueError(f"numeric_match needs a label with a number, got {label!r}")
    found = last_number(text)
    return float(found is not None and same_number(found, expected, tolerance))


def format_compliance(text: str, pattern: str | None, tags: Sequence[str]) -> float:
    """Whether a text has the form asked for.

    Raises:
        ValueError: Neither a pattern nor tags are given, or the pattern is no regular expression.
    """
    if pattern is None and not tags:
        raise ValueError("format_compliance needs `pattern` or `tags`")
    return float(_matches(text, pattern) and _has_tags(text, tags))


def tool_use(
    calls: Sequence[ToolCall], tools: Sequence[str] | None, at_least: int, at_most: int | None
) -> float:
    """Whether the calls of the tools that count are as many as asked for."""
    count = sum(tools is None or call.name in tools for call in calls)
    return float(at_least <= count and (at_most is None or count <= at_most))


def _label_text(label: Any) -> str:
    if label is None:
        raise ValueError("the task has no label to compare with")
    return str(label)


def _fold(text: str, ignore_case: bool) -> str:
    return text.strip().casefold() if ignore_case else text.strip()


def _matches(text: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    try:
        return re.search(pattern, text, re.DOTALL) is not None
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error


def _has_tags(text: str, tags: Sequence[str]) -> bool:
    position = 0
    for tag in tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if text.count(opening) != 1 or text.count(closing) != 1:
            return False
        start = text.find(opening, position)
        position = text.find(closing, start + len(opening))
        if start < 0 or position < 0:
            return False
        position += len(closing)
    return True
