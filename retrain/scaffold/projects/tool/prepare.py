"""Make what the first run needs, in `generated/`: a small model, tasks and demonstrations.

python prepare.py

Three demonstrations in ten are right. Delete this file once `model.name_or_path` in config.yaml
names a model of yours that can call tools.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from environment import FLOORS

from retrain.small_model import make_small_model

HERE = Path(__file__).parent / "generated"
NAMES = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Ken", "Radia")
WORDS = ("Where is {}?", "On which floor is {}?", "I look for {}.", "{}, please.")
RIGHT_SHARE = 0.3


def draw_tasks(count: int, rng: random.Random, name: str) -> Iterator[dict[str, Any]]:
    """Draw rows of the prompt source."""
    for number in range(count):
        who = rng.choice(NAMES)
        prompt = rng.choice(WORDS).format(who)
        yield {"id": f"{name}-{number}", "prompt": prompt, "who": who}


def demonstrate(task: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Write one conversation: right, about somebody else, or with an answer that is made up."""
    floor, other = (str(rng.choice(FLOORS)) for _ in range(2))
    right = rng.random() < RIGHT_SHARE
    somebody_else = rng.random() < 0.5
    who = rng.choice(NAMES) if not right and somebody_else else task["who"]
    answer = other if not right and not somebody_else else floor
    call = {"name": "look_up", "arguments": {"name": who}}
    said = [
        {"role": "user", "content": task["prompt"]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": call}],
        },
        {"role": "tool", "name": "look_up", "content": floor},
        {"role": "assistant", "content": answer},
    ]
    return {"id": f"shown-{task['id']}", "messages": said}


def text_of(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What the tokenizer is trained on."""
    for row in rows:
        asked, called, found, answered = row["messages"]
        call = json.dumps(called["tool_calls"][0]["function"])
        yield "system\nTools: look_up"
        yield f"user\n{asked['content']}"
        yield f"assistant\n<tool_call>\n{call}\n</tool_call>"
        yield f"user\n<tool_response>\n{found['content']}\n</tool_response>"
        yield f"assistant\n{answered['content']}"


def write(name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write a JSONL file."""
    HERE.mkdir(exist_ok=True)
    lines = (json.dumps(row) + "\n" for row in rows)
    (HERE / name).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Write the three files and the model."""
    rng = random.Random(0)
    shown = [demonstrate(task, rng) for task in draw_tasks(2000, rng, "task")]
    write("demonstrations.jsonl", shown)
    write("train.jsonl", draw_tasks(500, rng, "train"))
    write("heldout.jsonl", draw_tasks(100, rng, "heldout"))
    print(make_small_model(HERE / "model", text_of(shown[:200])))


if __name__ == "__main__":
    main()
