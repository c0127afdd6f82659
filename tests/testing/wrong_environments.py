"""Environments with one fault each; run by test_kit_catches.py, and not collected otherwise."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from retrain.environment import Environment, ToolSchema
from retrain.testing import EnvironmentSuite
from retrain.testing.canned.world import LOOKUP
from retrain.types import Action, Message, Observation, StepResult, Task


class Right(Environment):
    """Answers calls and nonsense, and ends at an answer."""

    @property
    def tools(self) -> Sequence[ToolSchema]:
        return (LOOKUP,)

    async def reset(self, task: Task, seed: int) -> Observation:
        self.turn = 0
        self.seed = seed
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.turn += 1
        if action.tool_calls:
            return StepResult(Observation(self.results(action)), 0.25)
        if action.parse_error is not None:
            return StepResult(Observation((Message("user", "Write it again."),)))
        return StepResult(Observation(), float("4" in action.text), terminated=True)

    def results(self, action: Action) -> tuple[Message, ...]:
        return tuple(Message("tool", f"{call.name} {self.turn}") for call in action.tool_calls)


class TestRight(EnvironmentSuite):
    def make_environment(self) -> Any:
        return Right()


class LeaksState(Right):
    seen: ClassVar[list[str]] = []

    def results(self, action: Action) -> tuple[Message, ...]:
        self.seen.append(action.tool_calls[0].name)
        return tuple(Message("tool", f"call {len(self.seen)}") for _ in action.tool_calls)


class TestLeaksState(EnvironmentSuite):
    def make_environment(self) -> Any:
        return LeaksState()


class SharesItsTurn(Right):
    """Keeps the episode's state on the class: fine alone, mixed up side by side."""

    last: ClassVar[str] = ""

    async def reset(self, task: Task, seed: int) -> Observation:
        type(self).last = task.id
        return await super().reset(task, seed)

    def results(self, action: Action) -> tuple[Message, ...]:
        return tuple(Message("tool", f"about {self.last}") for _ in action.tool_calls)


class TestSharesItsTurn(EnvironmentSuite):
    def make_environment(self) -> Any:
        return SharesItsTurn()


class MutatesItsMessages(Right):
    """Grows one list of messages, which it has already handed out."""

    async def reset(self, task: Task, seed: int) -> Any:
        await super().reset(task, seed)
        self.messages = list(task.messages)
        return self.messages

    async def step(self, action: Action) -> StepResult:
        self.messages.append(Message("assistant", action.text))
        return await super().step(action)


class TestMutatesItsMessages(EnvironmentSuite):
    def make_environment(self) -> Any:
        return MutatesItsMessages()


class Blocks(Right):
    async def step(self, action: Action) -> StepResult:
        if action.tool_calls:
            time.sleep(0.4)
        return await super().step(action)


class TestBlocksTheLoop(EnvironmentSuite):
    longest_block = 0.1

    def make_environment(self) -> Any:
        return Blocks()


class Random(Right):
    def results(self, action: Action) -> tuple[Message, ...]:
        return tuple(Message("tool", f"{random.random()}") for _ in action.tool_calls)


class TestNonDeterministic(EnvironmentSuite):
    def make_environment(self) -> Any:
        return Random()


class ReturnsADictionary(Right):
    async def step(self, action: Action) -> Any:
        return {"observation": "yes", "reward": 1.0, "done": True}


class TestReturnsADictionary(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ReturnsADictionary()


class RewardIsText(Right):
    async def step(self, action: Action) -> Any:
        return (await super().step(action))._replace(reward="1.0")


class TestRewardIsText(EnvironmentSuite):
    def make_environment(self) -> Any:
        return RewardIsText()


class NoPrompt(Right):
    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation()


class TestNoPrompt(EnvironmentSuite):
    def make_environment(self) -> Any:
        return NoPrompt()


class RaisesOnNonsense(Right):
    async def step(self, action: Action) -> StepResult:
        if not action.tool_calls:
            action.text.split()[0]
        return await super().step(action)


class TestRaisesOnNonsense(EnvironmentSuite):
    def make_environment(self) -> Any:
        return RaisesOnNonsense()


class ToolMessageForParseError(Right):
    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        if action.parse_error is None:
            return result
        return result._replace(observation=Observation((Message("tool", "Write it again."),)))


class TestToolMessageForParseError(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ToolMessageForParseError()


class OneResultOnly(Right):
    def results(self, action: Action) -> tuple[Message, ...]:
        return super().results(action)[:1]


class TestOneResultOnly(EnvironmentSuite):
    def make_environment(self) -> Any:
        return OneResultOnly()


class SaysItsOwnAnswer(Right):
    async def reset(self, task: Task, seed: int) -> Observation:
        await super().reset(task, seed)
        return Observation((*task.messages, Message("assistant", "Let me think.")))


class TestSaysItsOwnAnswer(EnvironmentSuite):
    def make_environment(self) -> Any:
        return SaysItsOwnAnswer()


class ToolsByNameOnly(Right):
    @property
    def tools(self) -> Any:
        return ({"function": {"name": "lookup", "parameters": [1]}},)


class TestToolsByNameOnly(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ToolsByNameOnly()


class ChangesTheTask(Right):
    async def reset(self, task: Task, seed: int) -> Observation:
        task.metadata["seen"] = True  # type: ignore[index]
        return await super().reset(task, seed)


class TestChangesTheTask(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ChangesTheTask()


class ChangesTheAction(Right):
    async def step(self, action: Action) -> StepResult:
        for call in action.tool_calls:
            call.arguments.clear()  # type: ignore[attr-defined]
        return await super().step(action)


class TestChangesTheAction(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ChangesTheAction()


class ClosesTwice(Right):
    """Can be closed only where it was reset."""

    async def close(self) -> None:
        del self.turn


class TestCannotBeClosedEarly(EnvironmentSuite):
    def make_environment(self) -> Any:
        return ClosesTwice()


class RepliesWithAnAssistant(Right):
    def results(self, action: Action) -> tuple[Message, ...]:
        return tuple(Message("assistant", "I see.") for _ in action.tool_calls)


class TestRepliesWithAnAssistant(EnvironmentSuite):
    def make_environment(self) -> Any:
        return RepliesWithAnAssistant()


class RewritesUnannounced(Right):
    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        if not action.tool_calls:
            return result
        summary = Observation((Message("user", "You called a tool. Go on."),), rewrite=True)
        return result._replace(observation=summary)


class TestRewritesUnannounced(EnvironmentSuite):
    def make_environment(self) -> Any:
        return RewritesUnannounced()
