"""Reads the answer out of a response, and compares numbers."""

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias

Number: TypeAlias = int | float

_NUMBER = re.compile(
    r"""
    (?: (?<![A-Za-z0-9.)]) [-+\N{MINUS SIGN}] )?   # a sign, but not the minus of 3-4
    (?<![A-Za-z0-9]) (?<!\d\.)                    # neither x2 nor the 3 of 1.2.3
    (?: (?: \d{1,3}(?:,\d{3})+(?!\d) | \d+ ) (?:\.\d+)? | (?<!\.)\.\d+ )
    (?: [eE][-+]?\d+ )?
    """,
    re.ASCII | re.VERBOSE,
)
_MAX_DIGITS = 100


def last_number(text: str) -> Number | None:
    """The last number in a text; None where there is none.

    Reads signs, thousands separators, decimals and exponents: "-1,234.5", "2e-3". A whole number
    comes back as an int, exactly. A number of more than 100 characters, or too large for a float,
    counts as none.
    """
    last = ""
    for match in _NUMBER.finditer(text):
        last = match.group()
    return _read(last) if last else None


def number_of(value: Any) -> Number | None:
    """The number that a label states: itself, or the last number in its text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    return last_number(value) if isinstance(value, str) else None


def same_number(left: Number, right: Number, tolerance: float = 1e-6) -> bool:
    """Whether two numbers are equal: whole ones exactly, others within a relative tolerance."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def _read(text: str) -> Number | None:
    if len(text) > _MAX_DIGITS:
        return None
    plain = text.replace(",", "").replace("\N{MINUS SIGN}", "-")
    if plain.lstrip("+-").isdigit():
        return int(plain)
    number = float(plain)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
