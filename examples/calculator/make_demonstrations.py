"""Make the demo's data: tasks to train on, held-out tasks, and demonstrations to imitate first.

python examples/calculator/make_demonstrations.py --output DIR
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tasks import SECOND_OPERATORS, CalculatorTask, draw_tasks

from retrain.environment.arithmetic import evaluate, format_number

HERE = Path(__file__).parent
Row = Mapping[str, Any]

RIGHT_SHARE = 0.3
"""The share of demonstrations that are right: imitation alone cannot do better, so that
reinforcement learning has something to find out."""

MISTAKES = ("operator", "operand", "stale", "early")
"""What the others do: another operator or another operand in the second call, the first number of
the task instead of the first result, or an answer after one call."""


def calculate(expression: str) -> str:
    """Calculate as the calculator tool does.

    Args:
        expression: Whole numbers and operators.
    """
    return format_number(evaluate(expression))


def second_expression(task: CalculatorTask, result: str, kind: str, rng: random.Random) -> str:
    """Write the second call's expression.

    Args:
        task: The task.
        result: The first call's result.
        kind: "right" or one of `MISTAKES`.
        rng: Chooses the wrong operator or operand.
    """
    operator, operand = task.second, task.operand
    if kind == "operator":
        operator = rng.choice([one for one in SECOND_OPERATORS if one != operator])
    if kind == "operand":
        operand = rng.choice([one for one in range(2, 10) if one != operand])
    return f"{task.left if kind == 'stale' else result}{operator}{operand}"


def call_and_result(expression: str, result: str) -> list[Row]:
    """Write the two messages of one tool call.

    Args:
        expression: What the assistant has calculated.
        result: What the tool answers.
    """
    function = {"name": "calculator", "arguments": {"expression": expression}}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": function}],
        },
        {"role": "tool", "name": "calculator", "content": result},
    ]


def demonstrate(task: CalculatorTask, kind: str, rng: random.Random) -> Row:
    """Write one demonstration: a whole conversation, right or with one mistake.

    Args:
        task: What it is about.
        kind: "right" or one of `MISTAKES`.
        rng: Chooses the details of a mistake.
    """
    answer = calculate(task.expression)
    messages: list[Row] = [{"role": "user", "content": task.prompt}]
    messages += call_and_result(task.expression, answer)
    if kind != "early":
        expression = second_expression(task, answer, kind, rng)
        answer = calculate(expression)
        messages += call_and_result(expression, answer)
    messages.append({"role": "assistant", "content": answer})
    return {"id": f"{task.id}-{kind}", "messages": messages}


def demonstrations(tasks: Iterable[CalculatorTask], seed: int) -> list[Row]:
    """Write one demonstration a task, `RIGHT_SHARE` of them right.

    Args:
        tasks: The tasks, none twice.
        seed: Seed of the mistakes.
    """
    rng = random.Random(seed)
    rows = []
    for task in tasks:
        kind = "right" if rng.random() < RIGHT_SHARE else rng.choice(MISTAKES)
        rows.append(demonstrate(task, kind, rng))
    return rows


def task_row(task: CalculatorTask) -> Row:
    """Write one row of the prompt source.

    Args:
        task: The task.
    """
    return {"id": task.id, "prompt": task.prompt, "label": calculate(task.whole)}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a JSONL file.

    Args:
        path: Where to.
        rows: One a line.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(path)


def main() -> None:
    """Read the command line and write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "generated")
    parser.add_argument("--train", type=int, default=2000, help="tasks to train on")
    parser.add_argument("--heldout", type=int, default=200, help="held-out tasks")
    parser.add_argument("--demonstrations", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = arguments.heldout, arguments.train, arguments.demonstrations
    tasks = draw_tasks(sum(counts), arguments.seed)
    held_out, rest = tasks[: counts[0]], tasks[counts[0] :]
    train, shown = rest[: counts[1]], rest[counts[1] :]
    write_rows(arguments.output / "heldout.jsonl", map(task_row, held_out))
    write_rows(arguments.output / "train.jsonl", map(task_row, train))
    write_rows(arguments.output / "demonstrations.jsonl", demonstrations(shown, arguments.seed))


if __name__ == "__main__":
    main()
