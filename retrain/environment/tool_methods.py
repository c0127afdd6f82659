"""Environments as TRL's `environment_factory` takes them, unchanged.

A class whose public methods are tools, with `reset(**row)` and perhaps `get_reward()`. What TRL
does with one is done here too, since the class was written for it: an exception in a tool is told
to the model, synchronous calls run one after another, and a tool call that cannot be read ends the
episode.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from retrain.environment.argument_types import typed_arguments
from retrain.environment.base import Environment, ToolSchema
from retrain.environment.seats import Seats
from retrain.environment.tool_methods_class import (
    REWARD,
    reset_arguments,
    tool_attributes,
    tool_schemas,
)
from retrain.environment.tool_text import images_beside, join_blocks, tool_text
from retrain.errors import EnvironmentFailure, ToolFailure, boundary
from retrain.rows import task_row
from retrain.types import Action, Message, Observation, StepResult, Task, ToolCall

_NO_SIGNALS = "main thread"


@dataclass(frozen=True, slots=True)
class ToolMethods:
    """Makes environments of such a class.

    Attributes:
        cls: The class.
        arguments: Keyword arguments of its `__init__`; TRL gives none.
        seats: Its instances that are free.
    """

    cls: type
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seats: Seats = field(default_factory=Seats, compare=False)

    def __call__(self) -> ToolMethodsEnvironment:
        """Make an environment for one episode."""
        return ToolMethodsEnvironment(self)

    @property
    def rewards(self) -> bool:
        """Whether the class rates its episodes."""
        return inspect.isfunction(getattr(self.cls, REWARD, None))


class ToolMethodsEnvironment(Environment):
    """Plays one episode with an instance of a user's class.

    Args:
        methods: The class, and its free instances.
    """

    def __init__(self, methods: ToolMethods) -> None:
        cls = methods.cls
        self._methods = methods
        self._attributes = tool_attributes(cls)
        self._schemas = dict(zip(self._attributes, tool_schemas(cls), strict=True))
        construct = partial(cls, **methods.arguments)
        self._seat = methods.seats.take(self, construct, f"retrain-{cls.__name__}")

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The public methods, by name, as transformers describes them."""
        return tuple(self._schemas.values())

    @property
    def world(self) -> Any:
        """The instance."""
        return self._seat.instance

    @property
    def busy(self) -> bool:
        """Whether a synchronous call runs, be it one that nobody waits for any more."""
        return self._seat.busy

    async def reset(self, task: Task, seed: int) -> Observation:
        """Call `reset` with the task's columns; text that it returns ends the last message.

        Raises:
            EnvironmentFailure: `reset` names a column that the task does not have, or returned
                neither text nor None.
        """
        instance = await self._seat.occupy()
        given = reset_arguments(instance.reset, task_row(task), f"task {task.id!r}")
        observation = await self._seat.call(instance.reset, **given)
        if observation is None:
            return Observation(task.messages)
        text = join_blocks(observation)
        if text is None:
            raise EnvironmentFailure(
                f"reset returned {type(observation).__name__} {observation!r:.60}; expected text "
                "or None"
            )
        *before, last = task.messages
        return Observation((*before, replace(last, content=last.content + text)))

    async def step(self, action: Action) -> StepResult:
        """Run the action's calls; an action without one that can be read ends the episode."""
        if action.parse_error is None and action.tool_calls:
            return StepResult(Observation(await self._answer(action.tool_calls)))
        success = getattr(self._seat.instance, "success", None)
        info = {"success": success} if isinstance(success, bool) else {}
        return StepResult(Observation(), terminated=True, info=info)

    async def final_reward(self) -> float:
        """What `get_reward` returns; 0 where the class has none."""
        if not self._methods.rewards:
            return 0.0
        reward: float = await self._seat.call(self._seat.instance.get_reward)
        return reward

    async def _answer(self, calls: Sequence[ToolCall]) -> tuple[Message, ...]:
        """Run the calls: synchronous ones in order, then the asynchronous ones together.

        The answers come in that order too, as TRL gives them.
        """
        answered: list[Message] = []
        waiting: list[tuple[ToolCall, Awaitable[Any]]] = []
        for call in calls:
            try:
                async with boundary(ToolFailure, f"tool {call.name}"):
                    method, arguments = self._bound(call)
                    if inspect.iscoroutinefunction(method):
                        waiting.append((call, method(**arguments)))
                        continue
                    result = await self._seat.call(method, **arguments)
            except ToolFailure as failure:
                result = _told(failure)
            answered.append(_tool_message(call, result))
        together = asyncio.gather(*(job for _, job in waiting), return_exceptions=True)
        outcomes = await self._seat.wait(together)
        for (call, _), outcome in zip(waiting, outcomes, strict=True):
            answered.append(_tool_message(call, _as_error(outcome)))
        return tuple(answered)

    def _bound(self, call: ToolCall) -> tuple[Callable[..., Any], dict[str, Any]]:
        if call.name not in self._attributes:
            raise ValueError(f"Tool {call.name} not found.")
        method = getattr(self._seat.instance, self._attributes[call.name])
        return method, typed_arguments(self._schemas[call.name], call.arguments)


def _told(failure: ToolFailure) -> Any:
    """What the model is told of an exception in a tool.

    Raises:
        ToolFailure: The tool asks for a signal, which only the main thread can have.
    """
    cause = failure.__cause__
    if cause is None:
        raise failure
    if isinstance(cause, ValueError) and _NO_SIGNALS in str(cause) and "signal" in str(cause):
        raise ToolFailure(
            f"{failure}; retrain runs tools outside the main thread, so a tool cannot limit its "
            "time by a signal: rollout.step_timeout does"
        ) from cause
    return _as_error(cause)


def _as_error(outcome: Any) -> Any:
    return {"error": str(outcome)} if isinstance(outcome, Exception) else outcome


def _tool_message(call: ToolCall, result: Any) -> Message:
    text = tool_text(call.name, result)
    shown = images_beside(text)
    return Message("tool", str(text), tool_call_id=call.id, name=call.name, images=shown)
