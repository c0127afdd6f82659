"""An environment that shows a second picture after the first turn."""

from __future__ import annotations

from retrain.environment.base import Environment
from retrain.images import Image
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory


class Looking(Environment):
    """Shows the picture of `task.metadata["next"]` after the first turn, where there is one."""

    shows_images = True  # type: ignore[assignment]

    async def reset(self, task: Task, seed: int) -> Observation:
        self._next = task.metadata.get("next")
        self._turns = 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self._turns += 1
        if self._turns == 2:
            return StepResult(Observation(), float(len(action.text) % 3), terminated=True)
        images = (Image(self._next),) if self._next else ()
        return StepResult(Observation((Message("user", "And now?", images=images),)))


def some_reward(trajectory: Trajectory) -> float:
    """Differs from episode to episode."""
    return float(sum(sum(turn.output_ids) for turn in trajectory.turns) % 7)
