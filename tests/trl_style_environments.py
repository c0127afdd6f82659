"""Environments and reward functions as people write them for TRL; nothing in here knows retrain."""

from __future__ import annotations

import asyncio
from typing import Any


class Account:
    """Synchronous tools, an exception that speaks to the model, and a reward of its own."""

    def reset(self, start: int, goal: int, **kwargs: Any) -> str:
        self.balance, self.goal, self.row = start, goal, kwargs
        return f" Reach {goal}; the account holds {start}."

    def deposit(self, amount: int, times: int = 1) -> int:
        """
        Put money into the account.

        Args:
            amount: How much.
            times: How often.

        Returns:
            The new balance.
        """
        if amount > 1000:
            raise ValueError("That is too much.")
        self.balance += amount * times
        return self.balance

    def statement(self) -> dict[str, int]:
        """Say what the account holds."""
        return {"balance": self.balance}

    @staticmethod
    def interest(rate: float) -> float:
        """
        Work out the interest on one hundred.

        Args:
            rate: The rate.
        """
        return 100 * rate

    @property
    def success(self) -> bool:
        return self.balance == self.goal

    def _hidden(self) -> None:
        raise AssertionError("a private method is no tool")

    def get_reward(self) -> float:
        return 1.0 if self.success else -abs(self.goal - self.balance) / 100


class Library:
    """Synchronous and asynchronous tools, and no reward: a reward function reads the state."""

    def reset(self, **kwargs: Any) -> None:
        self.read: list[str] = []

    async def fetch(self, title: str) -> str:
        """
        Fetch a book.

        Args:
            title: The book's title.
        """
        await asyncio.sleep(0)
        if title == "lost":
            raise KeyError(title)
        self.read.append(title)
        return f"{title} is here"

    def count(self) -> int:
        """Count the books that were read."""
        self.read.append("counted")
        return len(self.read)


class AsyncJudge(Library):
    """An asynchronous reward."""

    async def get_reward(self) -> float:
        await asyncio.sleep(0)
        return len(self.read) / 2


def books(environments: list[Any], **kwargs: Any) -> list[float]:
    return [float(len(environment.read)) for environment in environments]


def told_errors(completions: list[Any], **kwargs: Any) -> list[float | None]:
    """Counts the errors that tools told; does not apply to an episode without a tool call."""
    answers = [[m["content"] for m in c if m["role"] == "tool"] for c in completions]
    return [float(sum("'error'" in text for text in texts)) if texts else None for texts in answers]


async def length(completion_ids: list[list[int]], goal: list[int], **kwargs: Any) -> list[float]:
    return [len(ids) / 100 + wanted for ids, wanted in zip(completion_ids, goal, strict=True)]
