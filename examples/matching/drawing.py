"""Draws boards from a seed: nothing global is read or changed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from retrain.errors import ConfigError

from .board import UNSEEN, Board, Grid

_MOST_DRAWS = 200_000


@dataclass(frozen=True, slots=True)
class BoardRules:
    """How boards are drawn; the defaults are DialOp's.

    Attributes:
        size: How many reviewers, and papers: 2 to 8.
        highest: Scores are 0 to this.
        visible: The chance that a player sees a cell.
        unseen: What a cell counts that neither sees.
        scales: The least and the largest private factor.
        hardness: Neither player's own best guess may reach the best value over this; 0 takes
            every board. On 2 by 2, where only two assignments exist, a hard board tells each player
            that its own best guess is the wrong one.
    """

    size: int = 8
    highest: int = 99
    visible: float = 0.4
    unseen: int = UNSEEN
    scales: tuple[float, float] = (1.0, 10.0)
    hardness: float = 1.25

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: Naming the key.
        """
        low, high = self.scales
        for key, right, expected in (
            ("size", 2 <= self.size <= 8, "2 to 8"),
            ("highest", self.highest >= 1, "at least 1"),
            ("visible", 0 < self.visible <= 1, "above 0, at most 1"),
            ("unseen", self.unseen >= 0, "at least 0"),
            ("scales", 0 < low <= high, "two factors above 0, the least first"),
            ("hardness", self.hardness >= 0, "at least 0"),
        ):
            if not right:
                raise ConfigError(f"{key}: {getattr(self, key)!r}, expected {expected}")


def draw_board(rng: Random, rules: BoardRules) -> Board:
    """Draw boards until one is hard enough.

    Args:
        rng: Where it is drawn from.
        rules: What is drawn.

    Raises:
        ConfigError: None of very many was hard enough.
    """
    for _ in range(_MOST_DRAWS):
        board = _any_board(rng, rules)
        if _hard(board, rules.hardness):
            return board
    raise ConfigError(f"hardness: none of {_MOST_DRAWS:,} boards reaches {rules.hardness:g}")


def _any_board(rng: Random, rules: BoardRules) -> Board:
    cells = range(rules.size)
    masks = _mask(rng, rules), _mask(rng, rules)
    table = tuple(
        tuple(
            rng.randint(0, rules.highest) if masks[0][r][p] or masks[1][r][p] else rules.unseen
            for p in cells
        )
        for r in cells
    )
    scales = rng.uniform(*rules.scales), rng.uniform(*rules.scales)
    return Board(table, masks, scales, rules.unseen)


def _mask(rng: Random, rules: BoardRules) -> Grid:
    cells = range(rules.size)
    return tuple(tuple(int(rng.random() < rules.visible) for _ in cells) for _ in cells)


def _hard(board: Board, hardness: float) -> bool:
    if board.best == 0:
        return False
    return hardness == 0 or all(board.alone(player) * hardness < board.best for player in (0, 1))
