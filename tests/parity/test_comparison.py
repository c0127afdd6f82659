"""What is found where rows or weights differ, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from retrain.cli.parity_text import print_parity
from retrain.parity import LossReading, LossRow, compare_weights, digest, row_differences
from retrain.parity.report import BackendOutcome, ParityReport, outcome_of, report_of

ROWS = tuple(
    LossRow(
        index=n,
        part=0,
        tokens=(7, 8, 20 + n, 21, 22),
        mask=(1, 0, 1),
        logprobs=(-0.1, 0.0, -0.3),
        reward=n / 3,
        advantage=n - 1.5,
    )
    for n in range(4)
)


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(90 + i) for i in ids)


def found(rows: Sequence[LossRow]) -> list[Any]:
    return list(row_differences(ROWS, LossReading("b", "here", tuple(rows)), decode))


def changed(**fields: Any) -> list[LossRow]:
    return [ROWS[0], replace(ROWS[1], **fields), *ROWS[2:]]


def test_the_order_of_rows_does_not_count() -> None:
    assert found(ROWS[::-1]) == []
    assert digest(ROWS[::-1]) == digest(ROWS)


def test_numbers_are_compared_as_float32() -> None:
    assert found(changed(logprobs=(-0.1 + 1e-12, 0.0, -0.3), advantage=-0.5 - 1e-12)) == []
    assert [d.what for d in found(changed(logprobs=(-0.1 + 1e-6, 0.0, -0.3)))] == ["logprobs"]


@pytest.mark.parametrize(
    ("fields", "what", "token", "sides"),
    [
        ({"tokens": (7, 8, 21, 99, 22)}, "tokens", 3, ("abopp"[:2], "ab")),
        ({"mask": (1, 1, 1)}, "mask", 1, ("0 on", "1 on")),
        ({"logprobs": (-0.1, 0.0)}, "logprobs", 2, ("-0.3", "ends after 2")),
        ({"reward": None}, "reward", None, ("0.333", "None")),
        ({"advantage": 0.0}, "advantage", None, ("-0.5", "0.0")),
    ],
)
def test_each_kind_of_difference_is_named(
    fields: dict[str, Any], what: str, token: int | None, sides: tuple[str, str]
) -> None:
    (difference,) = found(changed(**fields))
    assert (difference.index, difference.what, difference.token) == (1, what, token)
    assert sides[0] in difference.expected and sides[1] in difference.found
    assert digest(changed(**fields)) != digest(ROWS)


def test_missing_double_and_extra_rows_are_named() -> None:
    assert [(d.what, d.found) for d in found(ROWS[1:])] == [("row", "not there")]
    assert [(d.what, d.found) for d in found([*ROWS, ROWS[2]])] == [("row", "2 times")]
    extra = replace(ROWS[0], part=1)
    assert [(d.part, d.found) for d in found([*ROWS, extra])] == [(1, "one more row")]


def reading(name: str, weight: float, **fields: Any) -> LossReading:
    rows = tuple(replace(row, weights=(weight, 0.0, weight)) for row in ROWS)
    return LossReading(name, "here", rows, **fields)


def test_equal_weights_have_no_cause() -> None:
    weights = compare_weights(reading("a", 1 / 8), reading("b", (1 + 1e-7) / 8))
    assert (weights.tokens, weights.differing, weights.causes) == (8, 0, ())
    assert weights.explained


def test_another_aggregation_is_a_cause() -> None:
    token = reading("a", 1 / 8)
    rows = tuple(
        replace(row, mask=mask, weights=tuple(m / (4 * sum(mask)) for m in mask))
        for row, mask in zip(ROWS, [(1, 0, 1), (1, 0, 1), (1, 0, 0), (1, 0, 1)], strict=True)
    )
    weights = compare_weights(token, LossReading("b", "here", rows, aggregation="sequence"))
    assert weights.explained and weights.differing == 1
    assert "loss_aggregation" in weights.causes[0]


def test_a_weight_that_follows_no_rule_is_not_explained() -> None:
    weights = compare_weights(reading("a", 1 / 8), reading("b", 1 / 9))
    assert weights.differing == 8 and weights.ratio == pytest.approx(9 / 8)
    assert weights.causes == () and not weights.explained
    wrong = compare_weights(reading("a", 1 / 8), reading("b", 1 / 9, aggregation="sequence"))
    assert wrong.causes and not wrong.explained


def printed(report: ParityReport) -> str:
    console = Console(file=StringIO(), width=100)
    print_parity(report, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("required", "equal"), [((), True), (("b",), True), (("c",), False)])
def test_a_backend_that_is_not_here_counts_where_it_is_asked_for(
    required: tuple[str, ...], equal: bool
) -> None:
    here = outcome_of(ROWS, LossReading("b", "here", ROWS), decode)
    report = report_of(ROWS, [here, BackendOutcome("c", absent="pip install c")], required)
    assert report.equal is equal
    assert "c: not compared: pip install c" in printed(report)
    assert printed(report).endswith("identical on the tape and b; c absent\n")


def test_backends_that_agree_point_to_what_has_changed_since_the_recording() -> None:
    def verdict(*rows: Sequence[LossRow]) -> str:
        readings = [
            LossReading(name, "here", tuple(r)) for name, r in zip("bc", rows, strict=False)
        ]
        report = report_of(ROWS, [outcome_of(ROWS, reading, decode) for reading in readings])
        assert not report.equal
        return printed(report).splitlines()[-1]

    other = changed(advantage=0.0)
    assert "2 differences; b and c agree with one another, so" in verdict(other, other)
    assert verdict(other, ROWS).endswith(": 1 differences")
    assert verdict(other).endswith(": 1 differences")
