"""Draw games and write them as JSONL, one a line, with the same games for the same seed.

python -m examples.matching.generate --num-games 100 --output games.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from .board import Board
from .drawing import BoardRules, draw_board
from .prompts import Style, first_prompt

SMALL = BoardRules(size=3, highest=9, visible=0.6, unseen=5, scales=(1.0, 1.0))
"""What a tiny model can learn: 3 by 3, digits for scores, no factors; hard boards as ever."""


def draw_games(count: int, seed: int, rules: BoardRules) -> Iterator[Board]:
    """Draw games; game n of a seed does not depend on how many are drawn."""
    for number in range(count):
        yield draw_board(Random(f"{seed}/{number}"), rules)


def game_row(number: int, board: Board, style: Style) -> dict[str, Any]:
    """One row of the file: what the model reads, and the whole game."""
    state = board.to_json()
    return {
        "prompt": first_prompt(board.view(0), style),
        "game_state": state,
        "ground_truth": state,
        "optimal_score": float(board.best),
        "game_id": number,
    }


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    print(path)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description="Draw games and write them as JSONL.")
    parser.add_argument("--num-games", type=int, required=True, metavar="N")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt", choices=("rules", "scores"), default="rules")
    parser.add_argument("--size", type=int, default=8, help="reviewers, and papers: 2 to 8")
    parser.add_argument("--highest", type=int, default=99, help="scores are 0 to this")
    parser.add_argument("--visible", type=float, default=0.4, help="chance to see a cell")
    parser.add_argument("--unseen", type=int, default=50, help="what a cell nobody sees counts")
    parser.add_argument("--scales", type=float, nargs=2, default=(1.0, 10.0), metavar="FACTOR")
    parser.add_argument("--hardness", type=float, default=1.25, help="0 takes every board")
    given = parser.parse_args(arguments)
    rules = BoardRules(
        size=given.size,
        highest=given.highest,
        visible=given.visible,
        unseen=given.unseen,
        scales=(given.scales[0], given.scales[1]),
        hardness=given.hardness,
    )
    games = enumerate(draw_games(given.num_games, given.seed, rules))
    write_rows(given.output, (game_row(n, board, given.prompt) for n, board in games))


if __name__ == "__main__":
    main()
