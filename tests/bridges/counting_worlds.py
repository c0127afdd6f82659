"""Worlds with a state of their own, which a restart loses unless they offer a way back."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from retrain.environment.base import Environment
from retrain.types import Action, Message, Observation, StepResult, Task

STEPS: Counter[str] = Counter()
"""How many steps each kind of world has really made."""


class CountingWorld(Environment):
    """Counts its steps; replies by its seed; ends after four turns."""

    def __init__(self) -> None:
        self.count = 0
        self.seed = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        self.seed = seed
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        STEPS[type(self).__name__] += 1
        self.count += 1
        text = f"step {self.count}: {random.Random(self.seed + self.count).randrange(1000)}"
        return StepResult(
            Observation((Message("user", text),)), float(self.count), terminated=self.count == 4
        )

    async def final_reward(self) -> float:
        return 100.0 * self.count


class Replayable(CountingWorld):
    """Repeats itself."""

    replayable = True


class Snapshots(CountingWorld):
    """Writes its state down."""

    async def snapshot(self) -> Any:
        return {"count": self.count, "seed": self.seed}

    async def restore(self, task: Task, snapshot: Any) -> None:
        self.count, self.seed = snapshot["count"], snapshot["seed"]


class Fickle(CountingWorld):
    """Says that it repeats itself, and does not."""

    replayable = True
    mood = 0

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        more = (Message("user", f"mood {Fickle.mood}"),)
        return result._replace(observation=Observation(result.observation.messages + more))
