"""What an environment of the user's declares is asked before a run, and breaks nothing there."""

from __future__ import annotations

import pytest

from retrain.environment.base import Environment
from retrain.environment.rewriting import rewrites_history
from retrain.types import Action, Observation, StepResult, Task

HERE = "test_rewrites_history"
CLOSED: list[str] = []


class Asked(Environment):
    """Says by a property, so that one must be made."""

    @property
    def rewrites_history(self) -> bool:
        return True

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        return StepResult(Observation(), terminated=True)

    async def close(self) -> None:
        CLOSED.append(type(self).__name__)


class CannotBeMade(Asked):
    def __init__(self) -> None:
        raise OSError("no connection")


class CannotSay(Asked):
    @property
    def rewrites_history(self) -> bool:
        raise OSError("no connection")


class CannotClose(Asked):
    async def close(self) -> None:
        raise OSError("no connection")


def test_one_that_must_be_made_to_be_asked_is_closed() -> None:
    CLOSED.clear()
    assert rewrites_history(f"{HERE}:Asked")
    assert CLOSED == ["Asked"]


@pytest.mark.parametrize("name", ["CannotBeMade", "CannotSay", "CannotClose"])
def test_one_that_fails_when_asked_is_left_to_whoever_plays_it(name: str) -> None:
    assert rewrites_history(f"{HERE}:{name}") is False


def test_one_that_cannot_say_is_closed_too() -> None:
    CLOSED.clear()
    rewrites_history(f"{HERE}:CannotSay")
    assert CLOSED == ["CannotSay"]
