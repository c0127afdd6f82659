"""The tasks: "75+99 then *6" asks for two calculations, the second on the result of the first."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIRST_OPERATORS = "+-"
SECOND_OPERATORS = "+-*"


@dataclass(frozen=True, slots=True)
class CalculatorTask:
    """One task: `left first right`, then `second operand` applied to the result.

    Attributes:
        left: 10 to 99.
        first: "+" or "-".
        right: 10 to 99; at most `left - 10` where `first` is "-", so results stay positive.
        second: "+", "-" or "*".
        operand: 2 to 9.
    """

    left: int
    first: str
    right: int
    second: str
    operand: int

    @property
    def id(self) -> str:
        """The task's id: its prompt without spaces."""
        return f"{self.left}{self.first}{self.right}then{self.second}{self.operand}"

    @property
    def prompt(self) -> str:
        """What the model reads."""
        return f"{self.left}{self.first}{self.right} then {self.second}{self.operand}"

    @property
    def expression(self) -> str:
        """The first calculation."""
        return f"{self.left}{self.first}{self.right}"

    @property
    def whole(self) -> str:
        """Both calculations as one expression, which gives the label."""
        return f"({self.expression}){self.second}{self.operand}"


def draw_task(rng: random.Random) -> CalculatorTask:
    """Draw one task.

    Args:
        rng: Where it is drawn from.
    """
    first = rng.choice(FIRST_OPERATORS)
    left = rng.randint(20, 99) if first == "-" else rng.randint(10, 99)
    right = rng.randint(10, left - 10) if first == "-" else rng.randint(10, 99)
    return CalculatorTask(left, first, right, rng.choice(SECOND_OPERATORS), rng.randint(2, 9))


def draw_tasks(count: int, seed: int) -> list[CalculatorTask]:
    """Draw `count` different tasks: the same ones for the same seed.

    Args:
        count: How many.
        seed: Seed of the draw.

    Raises:
        ValueError: `count` is more than a quarter of all tasks there are.
    """
    if count > 65_000:
        raise ValueError(f"{count} different tasks: at most 65000 can be drawn quickly")
    rng = random.Random(seed)
    tasks: dict[str, CalculatorTask] = {}
    while len(tasks) < count:
        task = draw_task(rng)
        tasks.setdefault(task.id, task)
    return list(tasks.values())
