"""Make what the small run needs, in `generated/`: a tiny model, games and demonstrations.

python -m examples.matching.prepare

The demonstrated player asks about few pairs or about none, and then proposes what is best on what
it knows; when it is rejected it asks once more. How often it asks says nothing about the board.
Before a proposal it writes down what it knows and what each assignment is worth by that: a tiny
model learns to copy and to add, one step a token, but not to do all of it at once.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from retrain.small_model import make_small_model
from retrain.types import Action, Task

from .asker import Asker
from .board import Board
from .environment import MatchingEnvironment
from .generate import SMALL, draw_games, game_row, write_rows

HERE = Path(__file__).parent / "generated"
QUESTIONS = (0, 0, 0, 1, 1, 1, 2, 2, 3, 4)
"""How many questions a demonstration begins with: one of these, 1.4 on average."""

MAX_TURNS = 8
PARTNER = {"demand": 0.5}
"""The partner's settings, those of config.yaml."""


_TRAIN, _HELD_OUT, _SHOWN = 1, 2, 3


async def demonstrate(number: int, board: Board, seed: int) -> dict[str, Any]:
    """Play one game against the scripted partner, and write it down.

    Args:
        number: Names the demonstration.
        board: The game.
        seed: Seed of how often the player asks.
    """
    questions = Random(f"{seed}/{number}").choice(QUESTIONS)
    row = game_row(number, board, "scores")
    environment = MatchingEnvironment(max_turns=MAX_TURNS, partner_config=PARTNER)
    await environment.reset(Task(str(number), row["prompt"], metadata=row), seed=number)
    player = Asker(board.view(0), questions, SMALL.unseen, thinks=True)
    said = [{"role": "user", "content": row["prompt"]}]
    heard: str | None = None
    while True:
        turn = player.turn(heard)
        said.append({"role": "assistant", "content": turn})
        result = await environment.step(Action(turn))
        if result.terminated or result.truncated:
            return {"id": f"shown-{number}", "messages": said}
        (reply,) = result.observation.messages
        heard = reply.content
        said.append({"role": "user", "content": heard})


async def demonstrations(boards: Iterable[Board], seed: int) -> list[dict[str, Any]]:
    """Demonstrate each game once."""
    return [await demonstrate(number, board, seed) for number, board in enumerate(boards)]


def text_of(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        yield from (f"{message['role']}\n{message['content']}" for message in row["messages"])


def main() -> None:
    """Read the command line and write the files and the model."""
    parser = argparse.ArgumentParser(description="Make what the small run needs.")
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--train", type=int, default=2000, help="games to train on")
    parser.add_argument("--heldout", type=int, default=200, help="held-out games")
    parser.add_argument("--demonstrations", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, split, count in (
        ("train", _TRAIN, given.train),
        ("heldout", _HELD_OUT, given.heldout),
    ):
        games = enumerate(draw_games(count, 10 * given.seed + split, SMALL))
        rows = (game_row(number, board, "scores") for number, board in games)
        write_rows(given.output / f"{name}.jsonl", rows)
    boards = draw_games(given.demonstrations, 10 * given.seed + _SHOWN, SMALL)
    shown = asyncio.run(demonstrations(boards, given.seed))
    write_rows(given.output / "demonstrations.jsonl", shown)
    print(make_small_model(given.output / "model", text_of(shown[:300]), seed=given.seed))


if __name__ == "__main__":
    main()
