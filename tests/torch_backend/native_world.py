"""A world whose length, replies and rewards follow from what the model writes."""

from __future__ import annotations

from retrain.environment import Environment
from retrain.seeds import derive_seed
from retrain.types import Action, Message, Observation, StepResult, Task


class NativeWorld(Environment):
    """Ends after one to three turns; one step in eleven breaks."""

    async def reset(self, task: Task, seed: int) -> Observation:
        self._turns = 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self._turns += 1
        noise = derive_seed("native", action.text, self._turns)
        if noise % 11 == 0:
            raise RuntimeError("the world broke")
        over = noise % 3 == 0 or self._turns == 3
        reply = Observation((Message("user", "go on " * (noise % 4)),))
        return StepResult(reply, (noise % 100) / 100, terminated=over)


class HugeRewards(NativeWorld):
    """Gives rewards that float32 cannot hold."""

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        return result._replace(reward=result.reward * 1e40)
