"""Make what the first run needs, in `generated/`: a small model, tasks and demonstrations.

python prepare.py

Half of the demonstrations are right. Delete this file once `model.name_or_path` in config.yaml
names a model of yours.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from retrain.small_model import make_small_model

HERE = Path(__file__).parent / "generated"


def draw_tasks(count: int, rng: random.Random, name: str) -> Iterator[dict[str, Any]]:
    """Draw rows of the prompt source."""
    for number in range(count):
        one, other = rng.sample(range(10, 100), 2)
        prompt = f"Which is larger: {one} or {other}?"
        yield {"id": f"{name}-{number}", "prompt": prompt, "label": str(max(one, other))}


def demonstrate(task: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Write one conversation: the answer is one of the two numbers."""
    numbers = [word for word in task["prompt"].strip("?").split() if word.isdigit()]
    said = [
        {"role": "user", "content": task["prompt"]},
        {"role": "assistant", "content": rng.choice(numbers)},
    ]
    return {"id": f"shown-{task['id']}", "messages": said}


def text_of(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        yield from (f"{message['role']}\n{message['content']}" for message in row["messages"])


def write(name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write a JSONL file."""
    HERE.mkdir(exist_ok=True)
    lines = (json.dumps(row) + "\n" for row in rows)
    (HERE / name).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Write the three files and the model."""
    rng = random.Random(0)
    shown = [demonstrate(task, rng) for task in draw_tasks(4000, rng, "task")]
    write("demonstrations.jsonl", shown)
    write("train.jsonl", draw_tasks(2000, rng, "train"))
    write("heldout.jsonl", draw_tasks(100, rng, "heldout"))
    print(make_small_model(HERE / "model", text_of(shown[:200])))


if __name__ == "__main__":
    main()
