"""Fields of a row that anybody may have written: each is taken only where it has its type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.view.lines import BrokenLine

Fields = Mapping[str, Any]


def whole(fields: Fields, name: str) -> int | None:
    """A whole number; None where there is none."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(fields: Fields, name: str) -> float | None:
    """A finite number; None where there is none."""
    return finite(fields.get(name))


def finite(value: Any) -> float | None:
    """A value as a finite number; None where it is none, or too large for one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text(fields: Fields, name: str) -> str | None:
    """A string; None where there is none."""
    value = fields.get(name)
    return value if isinstance(value, str) else None


def mapping(fields: Fields, name: str) -> Fields:
    """An object; empty where there is none."""
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def numbers(fields: Fields, name: str) -> dict[str, float]:
    """An object of finite numbers; what is something else is left out."""
    inside = mapping(fields, name)
    return {key: value for key in inside if (value := number(inside, key)) is not None}


def objects(fields: Fields, name: str) -> list[Fields]:
    """A list of objects; what is something else is left out."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def column(fields: Fields, name: str) -> Sequence[Any]:
    """A list that a sample cannot do without.

    Raises:
        BrokenLine: There is none.
    """
    value = fields.get(name)
    if not isinstance(value, list):
        raise BrokenLine(f"{name!r} is not a list; was it written by another version of retrain?")
    return value
