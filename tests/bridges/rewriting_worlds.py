"""Environments that rewrite what was said, scripted and random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from random_episodes import TOOLS, WORDS

from retrain.environment.base import Environment, ToolSchema
from retrain.types import Action, Message, Observation, StepResult, Task

SYSTEM = Message("system", "You are brief.")
Answer = Callable[["Rewriter"], Observation | BaseException]


class Rewriter(Environment):
    """Answers turn by turn as told; keeps the whole conversation in `said`.

    Args:
        answers: One a turn; each sees the environment. The turn behind the last ends the episode.
    """

    rewrites_history = True

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.said: list[Message] = []

    async def reset(self, task: Task, seed: int) -> Observation:
        self.said = [SYSTEM, *task.messages]
        return Observation(tuple(self.said))

    async def step(self, action: Action) -> StepResult:
        self.said.append(action.message)
        if not self.answers:
            return StepResult(Observation(), 1.0, terminated=True)
        observation = self.answers.pop(0)(self)
        if isinstance(observation, BaseException):
            raise observation
        kept = () if observation.rewrite else self.said
        self.said = [*kept, *observation.messages]
        return StepResult(observation, 0.25)


def say(text: str) -> Answer:
    """A plain reply."""
    return lambda world: Observation((Message("user", text),))


def repeat(text: str) -> Answer:
    """The whole conversation again, with a reply at its end."""
    return lambda world: Observation((*world.said, Message("user", text)), rewrite=True)


def compact(summary: str) -> Answer:
    """The first prompt and a summary in place of everything else."""
    return lambda world: Observation((*world.said[:2], Message("user", summary)), rewrite=True)


def branch(turn: int, text: str) -> Answer:
    """Back to what stood before a turn, counted from 0, with another continuation."""
    return lambda world: Observation((*world.said[: 2 * turn + 1], Message("user", text)), True)


def fail(error: BaseException) -> Answer:
    """A step that raises."""
    return lambda world: error


class RandomRewriter(Environment):
    """Replies, repeats, compacts, branches, breaks and ends at random.

    Attributes:
        observations: What it said, turn by turn.
        kinds: What each of them is: "reply", "repeat", "compact" or "branch".
    """

    rewrites_history = True

    def __init__(self, rng: random.Random, *, tools: bool) -> None:
        self._rng = rng
        self._tools = TOOLS if tools else ()
        self._said: list[Message] = []
        self.observations: list[Observation] = []
        self.kinds: list[str] = []

    @property
    def tools(self) -> Sequence[ToolSchema]:
        return self._tools

    async def reset(self, task: Task, seed: int) -> Observation:
        self._first = (SYSTEM, *task.messages)
        self._said = [*self._first]
        return Observation(self._first)

    async def step(self, action: Action) -> StepResult:
        before = len(self._said)
        self._said.append(action.message)
        roll = self._rng.random()
        if roll < 0.12:
            return StepResult(Observation(), terminated=roll < 0.08, truncated=roll >= 0.08)
        if roll < 0.16:
            raise RuntimeError("the world broke")
        kind = self._rng.choice(("reply", "reply", "repeat", "compact", "branch"))
        self.kinds.append(kind)
        self.observations.append(self._observe(kind, action, before))
        return StepResult(self.observations[-1], self._rng.random())

    def _observe(self, kind: str, action: Action, before: int) -> Observation:
        if kind in ("reply", "repeat"):
            reply = self._reply(action)
            whole = (*self._said, *reply)
            self._said = [*whole]
            return Observation(whole, True) if kind == "repeat" else Observation(reply)
        users = [at for at in range(2, before) if self._said[at].role == "user"]
        kept = self._rng.choice(users) if kind == "branch" and users else len(self._first)
        self._said = [*self._said[:kept], Message("user", self._text())]
        return Observation(tuple(self._said), True)

    def _reply(self, action: Action) -> tuple[Message, ...]:
        if action.tool_calls:
            return tuple(Message("tool", self._text(), name=c.name) for c in action.tool_calls)
        return (Message("user", self._text()),)

    def _text(self) -> str:
        return "say " + "".join(self._rng.choices(WORDS, k=self._rng.randint(1, 6))) + " end"


def trained_tokens(samples: Sequence[Any]) -> list[int]:
    """The ids that are trained on, over all samples of an episode, in order."""
    return [
        token
        for sample in samples
        for token, trained in zip(sample.response_ids, sample.loss_mask, strict=True)
        if trained
    ]
