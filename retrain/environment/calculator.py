"""`type: calculator`: sums to solve with a calculator as the only tool."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from retrain.environment.arithmetic import ArithmeticProblem, evaluate, format_number
from retrain.environment.tool_environment import ToolEnvironment
from retrain.environment.tools import ToolError, tool
from retrain.reward.answers import Number, last_number, number_of, same_number
from retrain.seeds import derive_seed
from retrain.types import Action, Observation, Task


class CalculatorEnvironment(ToolEnvironment):
    """The model may call `calculator`, and its answer's last number is compared with the label.

    The reward is 1.0 where the two are the same number, else 0.0. A task's label is a number, or a
    text whose last number counts.

    Args:
        max_turns: Most actions of an episode.
        system_prompt: A system message before the task's messages, unless they begin with one.
    """

    replayable = True

    def __init__(self, *, max_turns: int = 5, system_prompt: str | None = None) -> None:
        super().__init__(max_turns=max_turns, system_prompt=system_prompt)
        self._label: Number = 0

    @classmethod
    def tasks(
        cls, *, seed: int, count: int = 1000, terms: int = 3, largest: int = 99
    ) -> Iterator[Task]:
        """Make sums to solve, for `prompt_source: {type: environment}`.

        Args:
            seed: Other seeds give other sums.
            count: How many.
            terms: Numbers in a sum.
            largest: The largest number; the smallest is 1.
        """
        for number in range(count):
            rng = random.Random(derive_seed("sum", seed, number))
            parts = [str(rng.randint(1, largest))]
            for _ in range(terms - 1):
                parts += [rng.choice("+-*"), str(rng.randint(1, largest))]
            text = " ".join(parts)
            yield Task(f"sum-{number}", f"What is {text}?", format_number(evaluate(text)))

    @tool
    async def calculator(self, expression: str) -> str:
        """Compute an arithmetic expression.

        Args:
            expression: Numbers, + - * / // % ** and parentheses, for example (75 + 99) * 6.
        """
        try:
            return format_number(evaluate(expression))
        except ArithmeticProblem as problem:
            raise ToolError(str(problem)) from problem

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode.

        Raises:
            ValueError: The task's label is no number.
        """
        label = number_of(task.label)
        if label is None:
            raise ValueError(f"task {task.id!r}: the label must be a number, got {task.label!r}")
        self._label = label
        return await super().reset(task, seed)

    async def score(self, action: Action) -> tuple[float, Mapping[str, Any]]:
        """1.0 where the final answer's last number is the label, else 0.0."""
        answer = last_number(action.text) if action.final else None
        success = answer is not None and same_number(answer, self._label)
        return float(success), {"success": success, "answer": answer}
