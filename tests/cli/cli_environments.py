"""Environments and rewards that go wrong, named by the configurations of these tests."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from retrain.environment import Environment, ToolEnvironment, tool
from retrain.types import Action, Observation, StepResult, Task, Trajectory


class RaisesInReset(Environment):
    async def reset(self, task: Task, seed: int) -> Observation:
        raise RuntimeError("the world is closed")

    async def step(self, action: Action) -> StepResult:
        raise AssertionError("never reached")


class RaisesInStep(Environment):
    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        raise KeyError("no such move")


class RaisesWhenMade(RaisesInStep):
    def __init__(self) -> None:
        raise LookupError("no key for the world")


class Endless(RaisesInStep):
    async def reset(self, task: Task, seed: int) -> Observation:
        Path("begun").touch()
        await asyncio.sleep(3600)
        return Observation(task.messages)


class HangingTool(ToolEnvironment):
    def __init__(self) -> None:
        super().__init__(tool_timeout=0.2)

    @tool
    async def wait(self, seconds: int) -> str:
        """Wait.

        Args:
            seconds: How long.
        """
        await asyncio.sleep(3600)
        return "done"


def not_a_number(trajectory: Trajectory) -> float:
    return math.nan


class Silent(Environment):
    """Half a point to everybody, and not a word about success."""

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        return StepResult(Observation(), 0.5, terminated=True)


class Even(Silent):
    """Success to every other text."""

    async def step(self, action: Action) -> StepResult:
        won = sum(map(ord, action.text)) % 2 == 0
        return StepResult(Observation(), float(won), terminated=True, info={"success": won})


class Wordy(Silent):
    """A reward that tells texts apart."""

    async def step(self, action: Action) -> StepResult:
        return StepResult(Observation(), sum(map(ord, action.text)) / 1000, terminated=True)
