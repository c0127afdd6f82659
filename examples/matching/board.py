"""`Board`: all scores, and who sees which of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from retrain.errors import DataError

from .assignment import Assignment, best_assignment, value_of
from .names import PAPERS, REVIEWERS, Names

Grid: TypeAlias = tuple[tuple[int, ...], ...]
"""[reviewers][papers]"""

UNSEEN = 50
"""What a cell counts that neither player sees."""


@dataclass(frozen=True, slots=True)
class View:
    """What one player sees.

    Attributes:
        scores: [reviewers][papers] the score times the player's factor, truncated; None where the
            player does not see it.
        names: Who is assigned to what.
        unseen: What a cell counts that neither player sees.
    """

    scores: tuple[tuple[int | None, ...], ...]
    names: Names
    unseen: int = UNSEEN

    def guessed(self) -> list[list[float]]:
        """The scores, with the mean of those that are seen for the others.

        A player knows neither factor, so what `unseen` would look like is not known either.
        """
        seen = [score for row in self.scores for score in row if score is not None]
        mean = sum(seen) / len(seen) if seen else 0.0
        return [[mean if score is None else score for score in row] for row in self.scores]


@dataclass(frozen=True)
class Board:
    """One game's scores.

    Attributes:
        table: [reviewers][papers] whole numbers; `unseen` where neither player sees them.
        masks: For each player [reviewers][papers], 1 where the player sees the score.
        scales: Each player's private factor.
        unseen: What a cell counts that neither player sees.
        reviewers: Whose scores they are, where these are others than usual.
    """

    table: Grid
    masks: tuple[Grid, Grid]
    scales: tuple[float, float]
    unseen: int = UNSEEN
    reviewers: tuple[str, ...] = REVIEWERS

    @property
    def names(self) -> Names:
        """Who is assigned to what: the first ones of the lists."""
        size = len(self.table)
        return Names(self.reviewers[:size], PAPERS[:size])

    @cached_property
    def best(self) -> int:
        """The value of the best assignment that both could find together."""
        return int(self.value(best_assignment(self.table)))

    def value(self, assignment: Assignment) -> int:
        """What an assignment pays."""
        return int(value_of(self.table, assignment))

    def view(self, player: int) -> View:
        """What a player sees: factor times score, truncated."""
        scale = self.scales[player]
        scores = tuple(
            tuple(int(scale * score) if seen else None for score, seen in zip(*rows, strict=True))
            for rows in zip(self.table, self.masks[player], strict=True)
        )
        return View(scores, self.names, self.unseen)

    def alone(self, player: int) -> int:
        """What a player's best guess pays that counts what it does not see as `unseen`."""
        guess = [
            [score if seen else self.unseen for score, seen in zip(*rows, strict=True)]
            for rows in zip(self.table, self.masks[player], strict=True)
        ]
        return self.value(best_assignment(guess))

    def to_json(self) -> dict[str, Any]:
        """The board under DialOp's names; `unseen` and `reviewers` where they are not as usual."""
        state: dict[str, Any] = {
            "table": [list(row) for row in self.table],
            "mask1": [list(row) for row in self.masks[0]],
            "mask2": [list(row) for row in self.masks[1]],
            "scale1": self.scales[0],
            "scale2": self.scales[1],
            "best_assignment_reward": self.best,
        }
        if self.unseen != UNSEEN:
            state["unseen"] = self.unseen
        if self.reviewers != REVIEWERS:
            state["reviewers"] = list(self.reviewers)
        return state


def read_board(where: str, state: Mapping[str, Any]) -> Board:
    """Read what `Board.to_json` wrote, or one of DialOp's games.

    Args:
        where: What it belongs to, for messages.
        state: `table`, `mask1`, `mask2`, `scale1`, `scale2` and perhaps `best_assignment_reward`,
            `unseen` and `reviewers`.

    Raises:
        DataError: A key is missing or of the wrong shape, or the best value is not what it says.
    """
    table = _grid(where, state, "table")
    masks = _grid(where, state, "mask1"), _grid(where, state, "mask2")
    if {len(mask) for mask in masks} != {len(table)}:
        raise DataError(f"{where}: table, mask1 and mask2 are not of one size")
    scales = _number(where, state, "scale1"), _number(where, state, "scale2")
    reviewers = tuple(map(str, state.get("reviewers", REVIEWERS)))
    board = Board(table, masks, scales, int(state.get("unseen", UNSEEN)), reviewers)
    if len(board.names.reviewers) != len(table):
        raise DataError(f"{where}: 'reviewers': {len(reviewers)} names for {len(table)} rows")
    told = state.get("best_assignment_reward", board.best)
    if told != board.best:
        raise DataError(f"{where}: best_assignment_reward is {told}, and the table's {board.best}")
    return board


def _grid(where: str, state: Mapping[str, Any], key: str) -> Grid:
    rows = state.get(key)
    square = isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == len(rows) and all(type(n) is int for n in row)
        for row in rows
    )
    if not square or not 2 <= len(rows or ()) <= 8:
        raise DataError(f"{where}: {key!r}: expected rows of whole numbers, 2 by 2 to 8 by 8")
    return tuple(tuple(row) for row in rows or ())


def _number(where: str, state: Mapping[str, Any], key: str) -> float:
    value = state.get(key)
    if not isinstance(value, int | float) or not value > 0:
        raise DataError(f"{where}: {key!r} is {value!r}, expected a number above 0")
    return float(value)
