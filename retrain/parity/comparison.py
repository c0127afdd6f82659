"""Where a backend's rows are not those of the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrain.parity.rows import LossReading, LossRow, Place, float32

Decode = Callable[[Sequence[int]], str]

_AROUND = 24
"""Tokens that are shown before and after the first differing one."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One difference between a backend's row and the tape's.

    Attributes:
        backend: The backend.
        index: The sample's index.
        part: Which of its episode's samples it is.
        what: "tokens", "mask", "logprobs", "reward", "rewards" (by component), "advantage", or
            "row" for one that is missing or that nobody recorded.
        expected: What the tape gives; tokens are decoded.
        found: What the backend gives to its loss.
        token: Position of the first differing token, in the whole row for "tokens" and in the
            response for the others; None where it is not about a token.
    """

    backend: str
    index: int
    part: int
    what: str
    expected: str
    found: str
    token: int | None = None

    def __str__(self) -> str:
        part = f", part {self.part}" if self.part else ""
        token = "" if self.token is None else f", token {self.token}"
        return (
            f"{self.backend}, sample {self.index}{part}: {self.what}{token}\n"
            f"  tape:  {self.expected}\n  {self.backend}: {self.found}"
        )


def row_differences(
    expected: Sequence[LossRow], reading: LossReading, decode: Decode
) -> Iterator[RowDifference]:
    """Compare what a backend trains on with what was recorded, numbers as float32.

    Args:
        expected: The tape's rows.
        reading: The backend's.
        decode: Gives the text of ids.

    Yields:
        At most one difference of each kind for each row, in the order of the tape.
    """
    found: dict[Place, list[LossRow]] = {}
    for row in reading.rows:
        found.setdefault(row.place, []).append(row)
    for row in expected:
        given = found.pop(row.place, [])
        if len(given) != 1:
            number = f"{len(given)} times" if given else "not there"
            yield _of(row, reading, "row", "once", number)
            continue
        yield from _row(row, given[0], reading, decode)
    for rows in found.values():
        yield _of(rows[0], reading, "row", "not there", "one more row")


def _row(
    then: LossRow, now: LossRow, reading: LossReading, decode: Decode
) -> Iterator[RowDifference]:
    at = _first(then.tokens, now.tokens)
    if at is not None:
        shown = slice(max(at - _AROUND, 0), at + _AROUND)
        one, other = (repr(decode(list(row.tokens[shown]))) for row in (then, now))
        yield _of(then, reading, "tokens", one, other, at)
    responses: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "mask": (then.mask, now.mask),
        "logprobs": (float32(then.logprobs), float32(now.logprobs)),
    }
    for what, values in responses.items():
        at = _first(*values)
        if at is not None:
            one, other = (
                _at(row, side, at, decode) for row, side in zip((then, now), values, strict=True)
            )
            yield _of(then, reading, what, one, other, at)
    if _number(then.reward) != _number(now.reward):
        yield _of(then, reading, "reward", repr(then.reward), repr(now.reward))
    if then.rewards is not None and now.rewards is not None and then.rewards != now.rewards:
        yield _of(then, reading, "rewards", *_differing(then.rewards, now.rewards))
    if _number(then.advantage) != _number(now.advantage):
        yield _of(then, reading, "advantage", repr(then.advantage), repr(now.advantage))


def _at(row: LossRow, values: Sequence[float], at: int, decode: Decode) -> str:
    """The value at a position of the response, with the token that it belongs to."""
    if at >= len(values):
        return f"ends after {len(values)}"
    start = len(row.tokens) - len(row.mask)
    return f"{values[at]!r} on {decode(list(row.tokens[start + at : start + at + 1]))!r}"


def _first(one: Sequence[object], other: Sequence[object]) -> int | None:
    if tuple(one) == tuple(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _differing(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[str, str]:
    """What two sets of rewards do not have in common."""
    names = sorted(name for name in {**one, **other} if one.get(name) != other.get(name))
    first, second = (
        ", ".join(f"{name} {side.get(name, 'missing')}" for name in names) for side in (one, other)
    )
    return first, second


def _number(value: float | None) -> float | None:
    return None if value is None else float32([value])[0]


def _of(
    row: LossRow,
    reading: LossReading,
    what: str,
    expected: str,
    found: str,
    token: int | None = None,
) -> RowDifference:
    return RowDifference(reading.backend, row.index, row.part, what, expected, found, token)
