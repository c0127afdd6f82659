"""Environments that rewrite history, named by the configurations of these tests."""

from __future__ import annotations

from retrain.environment import Environment
from retrain.types import Action, Message, Observation, StepResult, Task


class TwoSegments(Environment):
    """Asks once more with a summary in place of the first answer; longer answers earn more."""

    rewrites_history = True

    async def reset(self, task: Task, seed: int) -> Observation:
        self.task, self.turns = task, 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.turns += 1
        earned = len(action.text) / 100
        if self.turns == 2:
            return StepResult(Observation(), earned, terminated=True)
        summary = Message("user", f"So far {len(action.text)} letters. Once more.")
        return StepResult(Observation((*self.task.messages, summary), rewrite=True), earned)


class Undeclared(TwoSegments):
    """The same without saying so."""

    rewrites_history = False
