"""Who plays Nim here: the opponent of config.yaml, and the player whom the small model imitates."""

from __future__ import annotations

import re
from functools import reduce
from operator import xor
from random import Random

Move = tuple[int, int]
"""A pile, and how many objects to take from it."""


def piles_in(observation: str) -> list[int]:
    """Read the piles as they are now: the last board that the game shows."""
    board = observation.rpartition("Current Pile:")[2]
    return [int(size) for size in re.findall(r"pile \d+: (\d+)", board)]


def moves(piles: list[int]) -> list[Move]:
    """List the moves that the rules allow."""
    return [(pile, taken) for pile, size in enumerate(piles) for taken in range(1, size + 1)]


def winning_moves(piles: list[int]) -> list[Move]:
    """List the moves after which the other player loses against the best play.

    Those leave piles whose exclusive or is 0 (C. L. Bouton, "Nim, a game with a complete
    mathematical theory", 1901); against the best play there are none where it is 0 already.
    """
    total = reduce(xor, piles, 0)
    return [
        (pile, taken) for pile, taken in moves(piles) if piles[pile] - taken == total ^ piles[pile]
    ]


class Player:
    """Makes a winning move at times, otherwise any move.

    Args:
        skill: How often it looks for a winning move, from 0 to 1.
        seed: What it draws from; retrain gives an opponent the seed of the episode.
    """

    def __init__(self, seed: int, skill: float) -> None:
        self._random = Random(seed)
        self._skill = skill

    def __call__(self, observation: str) -> str:
        """Move, in the game's notation.

        Args:
            observation: All that the game told this seat.
        """
        piles = piles_in(observation)
        looks = self._random.random() < self._skill
        pile, taken = self._random.choice((looks and winning_moves(piles)) or moves(piles))
        return f"[{pile} {taken}]"
