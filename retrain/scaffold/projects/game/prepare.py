"""Make what the first run needs, in `generated/`: a small model, tasks and demonstrations.

python prepare.py

Half of the guesses in the demonstrations heed what was said, the others are any number. Delete this
file once `model.name_or_path` in config.yaml names a model of yours.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from retrain.small_model import make_small_model

HERE = Path(__file__).parent / "generated"
PROMPT = "Guess my number from 1 to 9."
HEEDFUL_SHARE = 0.5


def demonstrate(number: int, rng: random.Random, max_guesses: int = 4) -> dict[str, Any]:
    """Write one game: each guess is a number that is still possible, or any number."""
    secret, lowest, highest = rng.randint(1, 9), 1, 9
    said = [{"role": "user", "content": PROMPT}]
    for _ in range(max_guesses):
        heedful = rng.random() < HEEDFUL_SHARE
        guess = rng.randint(lowest, highest) if heedful else rng.randint(1, 9)
        said.append({"role": "assistant", "content": str(guess)})
        if guess == secret:
            break
        lowest = max(lowest, guess + 1) if secret > guess else lowest
        highest = min(highest, guess - 1) if secret < guess else highest
        said.append({"role": "user", "content": "higher" if secret > guess else "lower"})
    if said[-1]["role"] == "user":
        said.pop()
    return {"id": f"shown-{number}", "messages": said}


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
    shown = [demonstrate(number, rng) for number in range(4000)]
    write("demonstrations.jsonl", shown)
    for name, count in (("train", 500), ("heldout", 100)):
        write(f"{name}.jsonl", ({"id": f"{name}-{n}", "prompt": PROMPT} for n in range(count)))
    print(make_small_model(HERE / "model", text_of(shown[:200])))


if __name__ == "__main__":
    main()
