"""`Environment`: what the world says back. Asynchronous; plain synchronous classes work too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.types import Action, Observation, StepResult, Task

ToolSchema = Mapping[str, Any]
"""A tool as chat templates take it: {"type": "function", "function": {name, description, …}}."""


class Environment(ABC):
    """One episode's world. retrain makes a new one for every episode and closes it afterwards."""

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools that the model may call, as JSON schemas; read after `reset`."""
        return ()

    @property
    def world(self) -> Any:
        """What reward functions that take `environments` are given."""
        return self

    @abstractmethod
    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode.

        Args:
            task: What this episode is about.
            seed: Seeds everything random in the world; the same for all members of a group.

        Returns:
            The whole first prompt.
        """

    @abstractmethod
    async def step(self, action: Action) -> StepResult:
        """Answer one action.

        Args:
            action: What the model did. `action.parse_error` says when a tool call could not be
                read; answer it with a user message.

        Returns:
            The reply, the reward for this turn, and whether the episode is over.
        """

    async def final_reward(self) -> float:
        """What the whole episode earns on top of its steps' rewards; 0 unless overridden.

        Called once when the episode is over, however it ended: a limit on tokens or turns may have
        cut it before any `step` could tell. Not called after a failure or an abort.
        """
        return 0.0

    async def close(self) -> None:  # noqa: B027 - optional to override
        """Free what the episode held; called exactly once, also after a failure."""
