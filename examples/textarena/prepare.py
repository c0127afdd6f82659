"""Make what the run needs, in `generated/`: a small model and demonstrations.

python prepare.py

The player of the demonstrations looks for a winning move every other time, and moves by chance
otherwise: the small model learns the rules from it, and to win one game in three or four.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from players import Player

from retrain.config import load_config
from retrain.environment.adapters.textarena import TextArenaEnvironment
from retrain.small_model import make_small_model
from retrain.types import Action, Message, Task

HERE = Path(__file__).parent
SKILL = 0.5
OTHER_CHANCE = 1_000_000
"""The opponent draws from the game's number, the player from this much more."""


def demonstrate(game: TextArenaEnvironment, number: int) -> dict[str, Any]:
    """Play one game in the model's seat, and write down what was said."""
    player = Player(seed=OTHER_CHANCE + number, skill=SKILL)
    said: list[Message] = list(game.reset(Task(f"shown-{number}", ""), number).messages)
    over = False
    while not over:
        said.append(Message("assistant", player("\n".join(message.content for message in said))))
        result = game.step(Action(said[-1].content))
        said += result.observation.messages
        over = result.terminated
    written = [{"role": message.role, "content": message.content} for message in said]
    return {"id": f"shown-{number}", "messages": written}


def text_of(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        yield from (f"{message['role']}\n{message['content']}" for message in row["messages"])


def main() -> None:
    """Write the demonstrations and the model."""
    parser = argparse.ArgumentParser(description="Make the small model and its demonstrations.")
    parser.add_argument("--output", type=Path, default=HERE / "generated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights")
    parser.add_argument("--demonstrations", type=int, default=2500)
    parser.add_argument("--both-seats", action="store_true", help="as self_play.yaml needs")
    given = parser.parse_args()
    settings = dict(load_config(HERE / "config.yaml").environment.env_specific_config)
    if given.both_seats:
        settings["seat"] = None
    game = TextArenaEnvironment(**settings)
    rows = [demonstrate(game, number) for number in range(given.demonstrations)]
    given.output.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row) + "\n" for row in rows)
    (given.output / "demonstrations.jsonl").write_text("".join(lines), encoding="utf-8")
    print(make_small_model(given.output / "model", text_of(rows[:200]), seed=given.seed))


if __name__ == "__main__":
    main()
