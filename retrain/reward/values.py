"""Reads what reward functions give: numbers of any library, mappings, lists of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import shown


class BadValue(RewardFailure):
    """A reward function gave something that is no finite number."""


class BadValues(BadValue):
    """Some of what a function of many episodes gave are no finite numbers.

    Attributes:
        values: What it gave for each, or why that is none.
    """

    def __init__(self, message: str, values: Sequence[float | BadValue | None] = ()) -> None:
        super().__init__(message)
        self.values = tuple(values)


class WrongCount(RewardFailure):
    """A function of many episodes gave another number of rewards."""


def finite_number(value: Any, what: str) -> float:
    """Check what a reward function gave; a scalar of numpy or torch is a number too.

    Args:
        value: What it gave.
        what: Who gave it, for the message.

    Raises:
        BadValue: It is no number, or not finite.
    """
    number = _scalar(value)
    if not isinstance(number, Real):
        raise BadValue(f"{what} returned {type(value).__name__} {shown(value)}; expected a number")
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise BadValue(f"{what} returned {shown(number)}; expected a finite number")
    return found


def reward_number(value: Any, what: str, reward_key: str | None) -> float | None:
    """The reward in what a function gave; None where it does not apply.

    Args:
        value: What it gave: a number, None, or a mapping that holds one.
        what: Who gave it, for the message.
        reward_key: Where the number stands in a mapping.

    Raises:
        BadValue: It holds no finite number.
    """
    if isinstance(value, Mapping):
        if reward_key not in value:
            keys = ", ".join(map(str, value)) or "nothing"
            wanted = (
                "set reward_key to one of them"
                if reward_key is None
                else f"reward_key is {reward_key!r}"
            )
            raise BadValue(f"{what} returned a mapping of {keys}; {wanted}")
        value = value[reward_key]
    return None if value is None else finite_number(value, what)


def reward_numbers(
    values: Any, count: int, what: str, reward_key: str | None
) -> list[float | None]:
    """The rewards of many episodes; an array of numpy or torch is a list too.

    Args:
        values: What a function of many gave.
        count: How many episodes there are.
        what: Who gave it, for the message.
        reward_key: As `reward_number`'s.

    Raises:
        WrongCount: It is no list, or one of another length.
        BadValues: Some hold no finite number.
    """
    found: list[float | BadValue | None] = []
    for value in _listed(values, count, what):
        try:
            found.append(reward_number(value, what, reward_key))
        except BadValue as failure:
            found.append(failure)
    faults = [value for value in found if isinstance(value, BadValue)]
    if faults:
        raise BadValues(str(faults[0]), found)
    return [value for value in found if not isinstance(value, BadValue)]


def _listed(values: Any, count: int, what: str) -> list[Any]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise WrongCount(
            f"{what} returned {type(values).__name__} {shown(values)} instead of a list"
        )
    if len(values) != count:
        raise WrongCount(f"{what} returned {len(values)} values for {count} episodes")
    return list(values)


def as_json(value: Any) -> Any:
    """What a reward function gave, as values that cross a process.

    Raises:
        BadValue: It holds something else than numbers, mappings and lists of them.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence):
        return [as_json(inner) for inner in value]
    if isinstance(value, Real):
        return float(value)
    raise BadValue(f"returned {type(value).__name__} {shown(value)}; expected a number")


def _scalar(value: Any) -> Any:
    if isinstance(value, Real) or not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except (RuntimeError, TypeError, ValueError):  # an array of several numbers
        return value
