"""Make what the run needs, in `generated/`: a small model and demonstrations.

python prepare.py

Three demonstrations in ten turn the matrix as far as the question says, the others as far as one of
the other turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from retrain.compose import make_tasks
from retrain.config import load_config
from retrain.environment.adapters.reasoning_gym import ReasoningGymEnvironment
from retrain.small_model import make_small_model
from retrain.types import Message

HERE = Path(__file__).parent
QUARTERS = (1, 2, 3)
"""How many times 90 degrees the questions of config.yaml ask for."""

RIGHT_SHARE = 0.3
"""Imitation alone cannot do better, so that reinforcement learning has something to find out."""

SEED = 0
"""Of the demonstrated questions; those of config.yaml follow from the run's seed."""


def answer(question: str, quarters: int) -> str:
    """Say how far to turn clockwise, and turn the matrix at the question's end."""
    rows: Sequence[Sequence[str]] = [row.split() for row in question.split(":\n")[-1].splitlines()]
    for _ in range(quarters):
        rows = list(zip(*rows[::-1], strict=True))
    turned = "\n".join(map(" ".join, rows))
    return f"By {90 * quarters} degrees:\n<answer>{turned}</answer>"


def demonstrate(asked: Sequence[Message], rng: Random) -> list[Message]:
    """Write one conversation: what the environment asks, and an answer."""
    question = asked[-1].content
    right = next(quarters for quarters in QUARTERS if f" {90 * quarters} degrees" in question)
    wrong = [quarters for quarters in QUARTERS if quarters != right]
    quarters = right if rng.random() < RIGHT_SHARE else rng.choice(wrong)
    return [*asked, Message("assistant", answer(question, quarters))]


def text_of(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        yield from (f"{message['role']}\n{message['content']}" for message in row["messages"])


def main() -> None:
    """Write the demonstrations and the model."""
    parser = argparse.ArgumentParser(description="Make the small model and its demonstrations.")
    parser.add_argument("--output", type=Path, default=HERE / "generated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights")
    parser.add_argument("--demonstrations", type=int, default=6000)
    given = parser.parse_args()
    config = load_config(HERE / "config.yaml")
    source = {**config.prompt_source.source_config, "seed": SEED, "count": given.demonstrations}
    asker, rng = ReasoningGymEnvironment(**config.environment.env_specific_config), Random(SEED)
    held_out = {task.prompt for task in make_tasks(config, config.evaluation.prompt_source)}
    rows = []
    for task in ReasoningGymEnvironment.tasks(**source):
        if task.prompt in held_out:
            continue
        said = demonstrate(asker.reset(task).messages, rng)
        messages = [{"role": message.role, "content": message.content} for message in said]
        rows.append({"id": task.id, "messages": messages})
    given.output.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row) + "\n" for row in rows)
    (given.output / "demonstrations.jsonl").write_text("".join(lines), encoding="utf-8")
    print(make_small_model(given.output / "model", text_of(rows[:200]), seed=given.seed))


if __name__ == "__main__":
    main()
