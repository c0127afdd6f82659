"""An environment whose length, replies and rewards vary with what the model writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.environment import Environment
from retrain.seeds import derive_seed
from retrain.types import Action, Message, Observation, StepResult, Task


class Noisy(Environment):
    """Ends after one to three turns; fails in one step of `fail_every`, or in chosen resets."""

    made = 0

    def __init__(self, fail_every: int = 0, fail_reset_every: int = 0) -> None:
        type(self).made += 1
        self.number = type(self).made
        self.fail_every = fail_every
        self.fail_reset_every = fail_reset_every
        self.turns = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        if self.fail_reset_every and self.number % self.fail_reset_every == 0:
            raise RuntimeError("the world did not begin")
        self.turns = 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.turns += 1
        noise = derive_seed("noisy", action.text, self.turns)
        if self.fail_every and noise % self.fail_every == 0:
            raise RuntimeError("the world broke")
        over = noise % 3 == 0 or self.turns == 3
        info: Mapping[str, Any] = {"success": noise % 2}
        reply = Observation((Message("user", "go on " * (noise % 4)),))
        return StepResult(reply, (noise % 100) / 100, terminated=over, info=info)


class RepeatableNoisy(Noisy):
    """Changes nothing outside of itself, so an interrupted episode is played again."""

    replayable = True
