"""Worlds that rewrite history, for parity over episodes of several segments."""

from __future__ import annotations

from parity_world import World

from retrain.types import Action, Message, Observation, StepResult, Task


class Compacting(World):
    """Every second reply is the task and a summary in place of what was said."""

    rewrites_history = True

    async def reset(self, task: Task, seed: int) -> Observation:
        self._first = task.messages
        return await super().reset(task, seed)

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        if result.terminated or self._turns % 2 == 0:
            return result
        summary = Message("user", f"You said {len(action.text)} letters.")
        return result._replace(observation=Observation((*self._first, summary), rewrite=True))


class Either(Compacting):
    """Compacts only where its argument says so."""

    def __init__(self, compact: bool = True) -> None:
        self._compact = compact

    @property
    def rewrites_history(self) -> bool:  # type: ignore[override]
        return self._compact


def make_compacting() -> Compacting:
    """A function in place of a class."""
    return Compacting()
