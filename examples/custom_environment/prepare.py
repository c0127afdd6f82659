"""Make what the run needs, in `generated/`: a small model, tasks and demonstrations.

python prepare.py

Three games in ten of the demonstrations are played by halving what is left. In half of the others
each guess is any number that is still possible, in the other half any number at all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from environment import GuessNumber

from retrain.small_model import make_small_model
from retrain.types import Action, Message, Task

HERE = Path(__file__).parent
HALVING_SHARE = 0.3
HIGHEST = (10, 20, 50)
MAX_GUESSES = 6
Row = dict[str, Any]


def task_rows(count: int, name: str) -> list[Row]:
    """Write rows of the prompt source; a task's other keys are its metadata."""
    asked = "Guess my number from 1 to {}. Answer with a number only."
    return [
        {"id": f"{name}-{number}", "prompt": asked.format(highest), "highest": highest}
        for number, highest in zip(range(count), HIGHEST * count, strict=False)
    ]


def draw_player(rng: Random) -> Callable[[Sequence[int], int], int]:
    """Draw how a game is played: a choice from the numbers that are possible, up to the highest."""
    if rng.random() < HALVING_SHARE:
        return lambda possible, highest: possible[(len(possible) - 1) // 2]
    if rng.random() < 0.5:
        return lambda possible, highest: rng.choice(possible)
    return lambda possible, highest: rng.randint(1, highest)


async def demonstrate(row: Row, rng: Random) -> Row:
    """Play one game, and write down what was said."""
    game, choose = GuessNumber(MAX_GUESSES), draw_player(rng)
    task = Task(row["id"], row["prompt"], metadata={"highest": row["highest"]})
    said: list[Message] = list((await game.reset(task, rng.getrandbits(31))).messages)
    over = False
    while not over:
        said.append(Message("assistant", str(choose(game.possible, game.highest))))
        result = await game.step(Action(said[-1].content))
        said += result.observation.messages
        over = result.terminated or result.truncated
    messages = [{"role": message.role, "content": message.content} for message in said[:-1]]
    return {"id": row["id"], "messages": messages}


def text_of(rows: Iterable[Row]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        yield from (f"{message['role']}\n{message['content']}" for message in row["messages"])


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write a JSONL file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


async def main() -> None:
    """Write the three files and the model."""
    parser = argparse.ArgumentParser(description="Make the small model, tasks and demonstrations.")
    parser.add_argument("--output", type=Path, default=HERE / "generated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights")
    parser.add_argument("--demonstrations", type=int, default=6000)
    given = parser.parse_args()
    rng = Random(0)
    shown = [await demonstrate(row, rng) for row in task_rows(given.demonstrations, "shown")]
    write(given.output / "demonstrations.jsonl", shown)
    for name, count in (("train", 600), ("heldout", 198)):
        write(given.output / f"{name}.jsonl", task_rows(count, name))
    print(make_small_model(given.output / "model", text_of(shown[:200]), seed=given.seed))


if __name__ == "__main__":
    asyncio.run(main())
