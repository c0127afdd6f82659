"""A world that rewrites its history in some episodes only."""

from __future__ import annotations

from plugin_world import World

from retrain.types import Action, Message, Observation, StepResult, Task


class Splitting(World):
    """Compacts after a first answer of an even number of letters."""

    rewrites_history = True

    async def reset(self, task: Task, seed: int) -> Observation:
        self._first = task.messages
        return await super().reset(task, seed)

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        if result.terminated or self._turn > 1 or len(action.text) % 2:
            return result
        return result._replace(observation=Observation((*self._first, Message("user", "so")), True))
