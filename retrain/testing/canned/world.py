"""`CannedWorld`: the environment of the canned cases, and the reward function next to its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from retrain.environment.base import Environment, ToolSchema
from retrain.seeds import derive_seed
from retrain.testing.canned.cases import BREAKS, BY_NAME, ENDS, NO_PROMPT, UNRATEABLE, Case
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory

LOOKUP: ToolSchema = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word."}},
            "required": ["word"],
        },
    },
}


class CannedWorld(Environment):
    """Says what the task's case says, and rates every turn by what was written.

    Args:
        rewrites: Whether it may play the cases that rewrite their history.
    """

    _case: Case

    def __init__(self, *, rewrites: bool = False) -> None:
        self._turn = 0
        self._rewrites = rewrites

    @property
    def rewrites_history(self) -> bool:
        """Whether it was made for cases that rewrite their history."""
        return self._rewrites

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """One tool, in the cases that have tools."""
        return (LOOKUP,) if self._case.tools else ()

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the case that the task is named after."""
        self._case = BY_NAME[task.id]
        if task.id == NO_PROMPT:
            raise RuntimeError("the world is closed")
        return Observation(self._case.prompt)

    async def step(self, action: Action) -> StepResult:
        """Give the next reply, or end."""
        if BREAKS in action.text:
            raise RuntimeError("the world broke")
        position, self._turn = self._turn, self._turn + 1
        reward = rating(action, position)
        if position >= len(self._case.replies) or ENDS in action.text:
            return StepResult(Observation(), reward, terminated=True)
        texts = self._case.replies[position]
        cut = self._case.cut and position + 1 == len(self._case.replies)
        observation = Observation(_messages(action, texts))
        if self._case.rewrites:
            messages = (*self._case.prompt, Message("user", texts[0]))
            observation = Observation(messages, rewrite=True)
        return StepResult(observation, reward, truncated=cut)


def rating(action: Action, position: int) -> float:
    """A reward of at least 0 and below 1 that follows from what was written."""
    calls = json.dumps([[call.name, dict(call.arguments)] for call in action.tool_calls])
    return derive_seed("rating", action.text, calls, position) % 997 / 997


def length_reward(trajectory: Trajectory) -> float:
    """A quarter for every turn; raises where the case asks for it."""
    if UNRATEABLE in trajectory.response_text:
        raise ValueError("this cannot be rated")
    return len(trajectory.turns) / 4


def _messages(action: Action, texts: Sequence[str]) -> tuple[Message, ...]:
    if not action.tool_calls:
        return (Message("user", texts[0]),)
    return tuple(
        Message("tool", texts[number % len(texts)], name=call.name)
        for number, call in enumerate(action.tool_calls)
    )
