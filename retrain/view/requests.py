"""What a request of the page asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from retrain.view.query import Order, Query
from retrain.view.summary import Flag

MOST_ROWS = 500
LONGEST_WORDS = 1000
_MOST_DIGITS = 12


class BadRequest(ValueError):
    """A request with a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a list are shown.

    Attributes:
        start: The first one.
        count: How many.
        find: An episode whose place in the list is wanted too.
    """

    start: int
    count: int
    find: str | None = None


class Parameters(Protocol):
    """The parameters of a URL."""

    def get(self, key: str, default: str = "", /) -> str:
        """One of them."""
        ...


def read_query(given: Parameters | Mapping[str, str]) -> Query:
    """The query of a request.

    Raises:
        BadRequest: A value is not one of those that there are.
    """
    try:
        flags = frozenset(Flag(name) for name in given.get("flags", "").split(",") if name)
        order = Order(given.get("order", "") or Order.NEWEST)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return Query(
        flags=flags,
        file=given.get("file", "") or None,
        split=given.get("split", "") or None,
        least=_number(given, "least"),
        most=_number(given, "most"),
        words=given.get("words", "")[:LONGEST_WORDS].strip(),
        order=order,
    )


def read_window(given: Parameters | Mapping[str, str]) -> Window:
    """The window of a request.

    Raises:
        BadRequest: It is no window.
    """
    start, count = given.get("start", "0"), given.get("count", "100")
    if not all(text.isdecimal() and len(text) <= _MOST_DIGITS for text in (start, count)):
        raise BadRequest(f"start and count are whole numbers, not {start!r:.20} and {count!r:.20}")
    return Window(int(start), min(int(count), MOST_ROWS), given.get("find", "") or None)


def _number(given: Parameters | Mapping[str, str], name: str) -> float | None:
    text = given.get(name, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRequest(f"{name} is a number, not {text!r:.20}")
    return number
