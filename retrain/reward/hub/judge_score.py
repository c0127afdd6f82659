"""Finds the score in what a judge wrote."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from retrain.errors import ConfigError
from retrain.reward.hub.pool import text_pool
from retrain.threads import DaemonThreads, call_in_thread

Form: TypeAlias = Literal["brackets", "json", "pattern"]
"""How a judge writes its score: `[[8]]`, `{"score": 8}`, or as a regular expression finds it."""

MOST_CHARACTERS = 20_000
"""How much of a reply's end is read."""

_BRACKETS = re.compile(r"\[\[\s*([-+]?\d{1,30}(?:\.\d{1,30})?)\s*\]\]", re.ASCII)
_MOST_OBJECTS = 200
_DECODER = json.JSONDecoder()
_LAST_GROUP = "retrain.reward.hub.judge_worker:last_group"
_SECONDS = 2.0
_THREADS = DaemonThreads(16, "retrain-judge")


class ScoreReader:
    """Reads scores of one form.

    Args:
        form: The form.
        key: Where the number stands in a JSON object.
        pattern: A regular expression whose first group is the number.

    Raises:
        ConfigError: The pattern is missing, not wanted, or no expression with a group.
    """

    def __init__(self, form: Form, key: str, pattern: str | None) -> None:
        if (form == "pattern") != (pattern is not None):
            raise ConfigError("llm_judge: set pattern with answer: pattern, and only then")
        if pattern is not None and _groups_of(pattern) < 1:
            raise ConfigError(f"llm_judge: pattern: {pattern!r} has no group for the number")
        self.form = form
        self.key = key
        self.pattern = pattern

    def asked(self) -> str:
        """How the judge is asked to write the score; "" where the rubric says it."""
        if self.form == "brackets":
            return "End with the score in double brackets, such as [[{lowest}]] or [[{highest}]]."
        if self.form == "json":
            object_ = f'{{"{self.key}": N}}'
            return f"End with a JSON object {object_}, where N is the score."
        return ""

    async def find(self, reply: str) -> float | None:
        """The last score in a reply, its reasoning aside; None where there is none.

        Raises:
            RewardFailure: Searching for the pattern took too long.
        """
        text = reply.rpartition("</think>")[2][-MOST_CHARACTERS:]
        if self.form == "brackets":
            found = _BRACKETS.findall(text)
            return _number(found[-1]) if found else None
        if self.form == "json":
            return _value(text, self.key)
        return _number(await call_in_thread(_THREADS, self._search, text))

    def _search(self, text: str) -> Any:
        return text_pool().call(_LAST_GROUP, self.pattern, text, seconds=_SECONDS)


def _value(text: str, key: str) -> float | None:
    """The number under a key in the last JSON object that has one, objects within it aside."""
    found: float | None = None
    reach = 0
    for start in _last_braces(text):
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        number = _number(value.get(key))
        if number is not None and end > reach:  # the last object, then those around it
            found, reach = number, end
    return found


def _last_braces(text: str) -> Iterator[int]:
    """Where objects may begin, the last first; at most so many."""
    start = len(text)
    for _ in range(_MOST_OBJECTS):
        start = text.rfind("{", 0, start)
        if start < 0:
            return
        yield start


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _groups_of(pattern: str) -> int:
    try:
        return re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"llm_judge: pattern: {pattern!r}: {error}") from error
