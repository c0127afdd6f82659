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
    def rewrites_history(self) -> bool:
        """Whether `step` may give `Observation(messages, rewrite=True)`.

        Such an environment drops, shortens or branches what was said. Say so on the class
        (`rewrites_history = True`), or by a property where it depends on the arguments: a backend
        that takes one token stream an episode is then refused before anything runs.
        """
        return False

    @property
    def shows_images(self) -> bool:
        """Whether messages of `reset` or `step` may show images that the task does not bring.

        Said on the class (`shows_images = True`), or by a property, it refuses a model that reads
        text only before anything runs; unsaid, such a model fails the episode.
        """
        return False

    @property
    def replayable(self) -> bool:
        """Whether the same seed and the same actions give the same episode, without side effects.

        An episode that a restart interrupted is then played again up to where it was, with the
        actions that are written down, and goes on from there. Say so on the class
        (`replayable = True`) only where no action changes anything outside the environment.
        """
        return False

    async def snapshot(self) -> Any:
        """What `restore` needs to make this state again, as JSON values; None offers none.

        Asked for between two calls of `step`, before a checkpoint is written.
        """
        return None

    async def restore(self, task: Task, snapshot: Any) -> None:
        """Take a state that `snapshot` gave, in place of `reset`.

        Args:
            task: What the episode is about.
            snapshot: What `snapshot` gave.
        """
        raise NotImplementedError(f"{type(self).__name__} gives snapshots and has no restore")

    @property
    def world(self) -> Any:
        """What reward functions that take `environments` are given."""
        return self

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """The tools where no episode is played, for demonstrations.

        Override it where `tools` are known only once something has been connected.
        """
        return self.tools

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
            The reply, the reward for this turn, and whether the episode is over. The observation
            holds what is new; an environment with `rewrites_history` may instead give the whole
            conversation that the model reads next, `Observation(messages, rewrite=True)`, such as
            the task and a summary. A new segment begins there, and every turn is trained once.
        """

    async def final_reward(self) -> float:
        """What the whole episode earns on top of its steps' rewards; 0 unless overridden.

        Called once when the episode is over, however it ended: a limit on tokens or turns may have
        cut it before any `step` could tell. Not called after a failure or an abort.
        """
        return 0.0

    async def close(self) -> None:  # noqa: B027 - optional to override
        """Free what the episode held; called exactly once, also after a failure."""
