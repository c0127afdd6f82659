"""A world that stands still in a step until it is let go, and fails then."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from plugin_world import World

from retrain.types import Action, Observation, StepResult, Task


class Held(World):
    """Holds the episodes of some tasks."""

    tasks: ClassVar[set[str]] = set()
    failing: ClassVar[asyncio.Event] = asyncio.Event()

    async def reset(self, task: Task, seed: int) -> Observation:
        self._held = task.id in self.tasks
        return await super().reset(task, seed)

    async def step(self, action: Action) -> StepResult:
        if self._held:
            await self.failing.wait()
            raise OSError("the world broke while slime trained")
        return await super().step(action)
