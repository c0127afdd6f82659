"""Values on their way between two processes of which one trusts the other with nothing.

A plain value (numbers, text, bytes, None, and lists, tuples, sets and dictionaries of them) arrives
as an equal value of the plain type itself: a number or text that says it equals everything arrives
as what it is. Anything else stays where it is, and arrives as something that stands for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

Packed: TypeAlias = Any
"""JSON: null, true, text, small numbers, or a list that begins with the name of its kind."""

THEIRS = "solution"
"""The module that a program's code is; containers of its own kinds keep their methods there."""

_CONTAINERS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, deque)
_EXACT = 2**53
_SEQUENCES: dict[Any, str] = {list: "list", tuple: "tuple", deque: "deque"}
_SETS: dict[Any, str] = {set: "set", frozenset: "frozenset"}
_MADE: dict[str, Callable[[Any], Any]] = {
    **{name: kind for kind, name in (_SEQUENCES | _SETS).items()},
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "int": lambda text: int(text, 16),
    "Decimal": Decimal,
    "Fraction": lambda text: Fraction(*(int(part, 16) for part in text.split("/"))),
}


def pack(value: Any, keep: Callable[[Any], Packed]) -> Packed:
    """Make JSON of a value.

    Args:
        value: Anything.
        keep: What to write for an object that is not plain.

    Raises:
        RecursionError: It is nested too deeply, or holds itself.
    """
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind.__module__ != THEIRS or not issubclass(kind, _CONTAINERS):
        for plain, write in _WRITERS.items():
            if issubclass(kind, plain):
                return write(value, keep)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return pack(value.tolist(), keep)
    return keep(value)


def contents(value: Any) -> Any:
    """What an object of a program's own subclass of a container holds, as that container.

    Raises:
        TypeError: It is none.
    """
    for plain in _CONTAINERS:
        if issubclass(type(value), plain):
            return plain(plain.items(value) if plain is dict else plain.__iter__(value))
    raise TypeError(f"{type(value).__name__} is no container")


def unpack(packed: Packed, find: Callable[[Packed], Any]) -> Any:
    """Make a value of JSON.

    Args:
        packed: What `pack` made, or what somebody claims it made.
        find: What a list of a kind that is not plain stands for.

    Raises:
        ValueError: It is nothing that `pack` makes.
    """
    if not isinstance(packed, list):
        if isinstance(packed, dict):
            raise ValueError("an object is no packed value")
        return packed
    try:
        kind, *content = packed
        if kind == "dict":
            return {unpack(k, find): unpack(v, find) for k, v in content[0]}
        if kind == "complex":
            return complex(*content)
        if kind in _MADE:
            (held,) = content
            return _MADE[kind]([unpack(v, find) for v in held] if type(held) is list else held)
    except (TypeError, IndexError) as error:
        raise ValueError(f"no packed value: {error}") from error
    return find(packed)


def _integer(value: int, keep: Any) -> Packed:
    number = int.__index__(value)
    return number if -_EXACT < number < _EXACT else ["int", f"{number:x}"]


def _sequence(value: Any, keep: Any) -> Packed:
    kind = next(kind for kind in _SEQUENCES if isinstance(value, kind))
    return [_SEQUENCES[kind], [pack(item, keep) for item in kind.__iter__(value)]]


def _set(value: Any, keep: Any) -> Packed:
    kind = next(kind for kind in _SETS if isinstance(value, kind))
    return [_SETS[kind], [pack(item, keep) for item in kind.__iter__(value)]]


def _mapping(value: dict[Any, Any], keep: Any) -> Packed:
    return ["dict", [[pack(k, keep), pack(v, keep)] for k, v in dict.items(value)]]


_WRITERS: dict[type, Callable[[Any, Any], Packed]] = {
    int: _integer,
    float: lambda value, keep: float.__float__(value),
    str: lambda value, keep: str.__str__(value),
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    deque: _sequence,
    bytes: lambda value, keep: ["bytes", bytes.hex(value)],
    bytearray: lambda value, keep: ["bytearray", bytearray.hex(value)],
    complex: lambda value, keep: ["complex", value.real, value.imag],
    Decimal: lambda value, keep: ["Decimal", str(value)],
    Fraction: lambda value, keep: ["Fraction", f"{value.numerator:x}/{value.denominator:x}"],
}
