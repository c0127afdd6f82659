"""`ToolEnvironment`: the model calls tools until it answers without one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

from retrain.environment.answer_checks import AnswerCheck
from retrain.environment.base import Environment, ToolSchema
from retrain.environment.tool_calls import cut_text, run_calls
from retrain.environment.tool_errors import ToolErrors
from retrain.environment.tool_text import images_beside
from retrain.environment.toolbox import Toolbox
from retrain.environment.tools import Tool
from retrain.errors import ConfigError
from retrain.registry import allow_working_directory, load_object
from retrain.types import Action, Message, Observation, StepResult, Task, ToolCall

Score: TypeAlias = "float | tuple[float, Mapping[str, Any]]"


class ToolEnvironment(Environment):
    """Runs the tool calls of an action and answers with one `tool` message each.

    An action without a tool call ends the episode, and `score` rates it. One that the limit on a
    turn's length cut before any call is no answer: it ends the episode as truncated. Subclasses add
    `@tool` methods and override `score`; `self.task` and `self.seed` are this episode's. A task
    whose metadata has a list of names under `tools` offers only these.

    Args:
        tools: Tools besides the class's own `@tool` methods: functions, or their import paths.
        max_turns: Most actions of an episode; None for no limit. The last one is answered, and
            then the episode is truncated.
        max_tool_calls: Most tool calls of an episode; further ones are not run, and the model is
            told so. None for no limit.
        system_prompt: A system message before the task's messages, unless they begin with one.
        tool_timeout: Seconds after which a tool without a limit of its own counts as hung; None
            waits for ever.
        max_parallel_calls: Most calls of one action that run at once.
        max_result_chars: Most characters of a result that the model reads; the rest is cut, and
            the cut is marked. None for no limit.
        tool_errors: What the model reads of an exception that a tool raises; see `ToolErrors`.
        check_answer: Rewards 1.0 where the final answer is the task's label; see `AnswerCheck`.
            None leaves it to `score` and to reward functions.

    Raises:
        ConfigError: A number is not positive, two tools have one name, or a tool cannot be
            described.
    """

    task: Task
    seed: int

    def __init__(
        self,
        tools: Sequence[Tool | Callable[..., Any] | str] = (),
        *,
        max_turns: int | None = None,
        max_tool_calls: int | None = None,
        system_prompt: str | None = None,
        tool_timeout: float | None = 30.0,
        max_parallel_calls: int = 8,
        max_result_chars: int | None = 20_000,
        tool_errors: Literal["message", "type", "fail"] = "message",
        check_answer: Literal["number", "exact", "contains"] | None = None,
    ) -> None:
        _require_positive(
            max_turns=max_turns,
            max_tool_calls=max_tool_calls,
            tool_timeout=tool_timeout,
            max_parallel_calls=max_parallel_calls,
            max_result_chars=max_result_chars,
        )
        self.max_turns = max_turns
        self.max_tool_calls = max_tool_calls
        self.system_prompt = system_prompt
        self.tool_timeout = tool_timeout
        self.max_result_chars = max_result_chars
        self.tool_errors = ToolErrors(tool_errors)
        self.check_answer = None if check_answer is None else AnswerCheck(check_answer)
        self.toolbox = Toolbox([*_own_tools(self), *map(_as_tool, tools)])
        self._offered = self.toolbox
        self._slots = asyncio.Semaphore(max_parallel_calls)
        self._turns = self._calls = 0

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools' JSON schemas, the class's own first; those of the task after `reset`."""
        return self._offered.schemas

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode with the task's messages.

        Raises:
            ValueError: The task names a tool that there is not, or has no label to check against.
        """
        self.task, self.seed, self._turns, self._calls = task, seed, 0, 0
        self._offered = self.toolbox.chosen_for(task)
        if self.check_answer is not None:
            self.check_answer.labels_of(task)
        messages = task.messages
        if self.system_prompt is not None and messages[:1] and messages[0].role != "system":
            messages = (Message("system", self.system_prompt), *messages)
        return Observation(messages)

    async def step(self, action: Action) -> StepResult:
        """Run the action's tool calls, or end the episode where there is none."""
        self._turns += 1
        if action.parse_error is None and not action.tool_calls:
            reward, info = await self._rate(action)
            ended = {"truncated" if action.truncated else "terminated": True}
            return StepResult(Observation(), reward, info=info, **ended)
        observation = Observation(await self._answer(action))
        if self.max_turns is None or self._turns < self.max_turns:
            return StepResult(observation)
        reward, info = await self._rate(action)
        return StepResult(observation, reward, truncated=True, info=info)

    async def score(self, action: Action) -> Score:
        """Rate the episode once, at its end; override it where `check_answer` is not enough.

        Args:
            action: The final answer, where `action.final` is True. Otherwise the episode was cut
                before there was one: by `max_turns` (the action has `tool_calls` or a
                `parse_error`) or in mid-turn (it is `truncated`).

        Returns:
            The reward, or the reward and an info of JSON values; "success" in it becomes a metric.
        """
        if self.check_answer is None:
            return 0.0
        success = action.final and self.check_answer.right(action.text, self.task)
        return float(success), {"success": success}

    async def run_tool(self, call: ToolCall) -> str:
        """Run one call; override it to watch, change or refuse calls.

        Returns:
            The text that the model reads.

        Raises:
            ToolFailure: The tool is broken.
        """
        tool = self._offered.get(call.name)
        if tool is None:
            return f"Error: there is no tool {call.name!r}. Tools: {self._offered.names}"
        async with self._slots:
            return await tool.run(
                call.arguments, timeout=self.tool_timeout, errors=self.tool_errors
            )

    async def _answer(self, action: Action) -> tuple[Message, ...]:
        if action.parse_error is not None:
            text = f"Error: the tool call could not be read: {action.parse_error}"
            return (Message("user", text),)
        calls = action.tool_calls
        room = len(calls) if self.max_tool_calls is None else self.max_tool_calls - self._calls
        paid, unpaid = calls[:room], calls[room:]
        self._calls += len(paid)
        texts = await run_calls(paid, self.run_tool, self._serial)
        used_up = f"Error: all {self.max_tool_calls} tool calls are used up; answer without one"
        return tuple(
            Message(
                "tool",
                cut_text(text, self.max_result_chars),
                tool_call_id=call.id,
                name=call.name,
                images=images_beside(text),
            )
            for call, text in zip(calls, (*texts, *[used_up] * len(unpaid)), strict=True)
        )

    def _serial(self, call: ToolCall) -> bool:
        tool = self._offered.get(call.name)
        return tool is not None and tool.serial

    async def _rate(self, action: Action) -> tuple[float, Mapping[str, Any]]:
        score: Any = self.score(action)
        if inspect.isawaitable(score):
            score = await cast(Awaitable[Score], score)
        return score if isinstance(score, tuple) else (score, {})


@lru_cache(maxsize=256)
def _as_tool(thing: Tool | Callable[..., Any] | str) -> Tool:
    if isinstance(thing, str):
        allow_working_directory()
    loaded: Any = load_object(thing, f"tool {thing!r}") if isinstance(thing, str) else thing
    return loaded if isinstance(loaded, Tool) else Tool(loaded)


def _own_tools(environment: ToolEnvironment) -> list[Tool]:
    names = [name for base in reversed(type(environment).__mro__) for name in vars(base)]
    marked = (n for n in dict.fromkeys(names) if isinstance(getattr(type(environment), n), Tool))
    return [getattr(environment, name) for name in marked]


def _require_positive(**numbers: float | None) -> None:
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise ConfigError(f"environment.env_specific_config.{name}: must be positive: {number}")
