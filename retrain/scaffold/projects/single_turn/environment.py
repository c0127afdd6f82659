"""A question and one answer. Nothing is said back, and the reward function rates the episode."""

from retrain.environment import Environment
from retrain.types import Action, Observation, StepResult, Task


class Question(Environment):
    """Shows the task, takes one answer, and ends."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """Show the task's prompt."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """End the episode."""
        return StepResult(Observation(), terminated=True)
