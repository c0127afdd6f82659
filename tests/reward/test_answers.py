"""Reading numbers out of text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.reward.answers import Number, last_number, same_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("the answer is 225.", 225),
        ("so, -4", -4),
        ("3-4", 4),
        ("3 - 4", 4),
        ("x = -5", -5),
        ("(-5)", -5),
        ("\N{MINUS SIGN}7", -7),
        ("+8", 8),
        ("$1,234.50", 1234.5),
        ("1,234,567", 1234567),
        ("12,34", 34),
        (".5", 0.5),
        ("well...225", 225),
        ("1.0", 1),
        ("2e-3", 0.002),
        ("\\boxed{42}", 42),
        ("**42**", 42),
        ("_42_", 42),
        ("42kg", 42),
        ("10%", 10),
        ("x2", None),
        ("none", None),
        ("", None),
        ("1e999", None),
        ("9" * 101, None),
        ("\u0663", None),
    ],
)
def test_the_last_number_of_a_text(text: str, number: Number | None) -> None:
    assert last_number(text) == number


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_are_read_exactly(number: int) -> None:
    assert last_number(f"It is {number}.") == number
    assert last_number(f"It is {number:,}!") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_read_back(number: float) -> None:
    found = last_number(f"= {number!r}")

    assert found is not None
    assert same_number(found, number)


def test_whole_numbers_must_be_equal_and_others_nearly() -> None:
    assert not same_number(1_000_000, 1_000_001)
    assert same_number(0.3333333, 1 / 3)
    assert not same_number(0.333, 1 / 3)
    assert same_number(10**99, float(10**99))


@pytest.mark.parametrize("text", ["1" * 10**6, "1," * 500_000, "1.1" * 300_000, "-" * 10**6])
def test_a_long_response_is_read_in_linear_time(text: str) -> None:
    began = time.perf_counter()
    last_number(text)
    assert time.perf_counter() - began < 5
