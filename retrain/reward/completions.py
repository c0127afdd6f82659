"""Reward functions over completions, as TRL takes them: `(prompts, completions, **columns)`.

They are called once per group, with every argument that TRL 1.16 gives but `trainer_state`, which
exists only inside its trainer.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from retrain.environment.argument_types import typed_arguments
from retrain.errors import ConfigError
from retrain.rows import chat_dict, task_row
from retrain.types import Message, ToolCall, Trajectory, Turn

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""The text of ids, special tokens left out."""

GIVEN = ("prompts", "completions", "completion_ids", "environments", "log_extra", "log_metric")
_MARKS = GIVEN[:4]
_OURS = ("trajectory", "trajectories", "turn")
_NO_COLUMNS = ("prompt", "completion", "completion_ids")


class CompletionsReward:
    """Lets such a function score trajectories.

    Args:
        function: Takes completions; synchronous or asynchronous.
        decode: Gives the text of ids.

    Attributes:
        function: The function.
        name: Its name.
        needed: Its parameters without a default; TRL gives them all, some from columns.

    Raises:
        ConfigError: The function cannot do without `trainer_state`.
    """

    def __init__(self, function: Callable[..., Any], decode: Decode) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._decode = decode
        parameters = inspect.signature(function).parameters
        self._open = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._named = [name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
        self.needed = [
            name for name in self._named if parameters[name].default is inspect.Parameter.empty
        ]
        if "trainer_state" in self.needed:
            raise ConfigError(f"{self.name} needs trainer_state, which only TRL's trainer has")

    def __call__(self, trajectories: Sequence[Trajectory], **params: Any) -> Any:
        """The rewards of episodes: a list with None where the function does not apply.

        Args:
            trajectories: The episodes.
            **params: Further keyword arguments from the configuration.

        Returns:
            The list, or an awaitable of it.

        Raises:
            ConfigError: The function needs a column that no task has.
        """
        given = {**self._columns(trajectories), **self._arguments(trajectories), **params}
        missing = [name for name in self.needed if name not in given]
        if missing:
            raise ConfigError(
                f"{self.name} needs {', '.join(missing)}; the tasks have the columns "
                f"{', '.join(sorted(set(given) - set(GIVEN)))}"
            )
        if not self._open:
            given = {name: given[name] for name in self._named if name in given}
        rewards = self.function(**given)
        return _listed_later(rewards) if inspect.isawaitable(rewards) else _listed(rewards)

    def _columns(self, trajectories: Sequence[Trajectory]) -> dict[str, list[Any]]:
        rows = [task_row(trajectory.task) for trajectory in trajectories]
        names = dict.fromkeys(name for row in rows for name in row)
        return {n: [row.get(n) for row in rows] for n in names if n not in _NO_COLUMNS}

    def _arguments(self, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
        return {
            "prompts": [prompt_of(trajectory) for trajectory in trajectories],
            "completions": [completion_of(t, self._decode) for t in trajectories],
            "completion_ids": [_response_ids(trajectory) for trajectory in trajectories],
            "environments": [_world(trajectory) for trajectory in trajectories],
            "log_extra": _ignore,
            "log_metric": _ignore,
        }


def takes_completions(function: Callable[..., Any]) -> bool:
    """Whether a function is one of TRL's kind: a parameter is named as only TRL names it."""
    names = list(inspect.signature(function).parameters)
    return not (names and names[0] in _OURS) and any(name in _MARKS for name in names)


def makes_reward(function: Callable[..., Any]) -> bool:
    """Whether a function makes a reward function from its parameters: `-> Callable`.

    TRL's `get_soft_overlong_punishment` is one.
    """
    if inspect.isclass(function) or takes_completions(function):
        return False
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):
        return False
    return collections.abc.Callable in (hint, typing.get_origin(hint))


def prompt_of(trajectory: Trajectory) -> Any:
    """The first prompt: chat dictionaries, or text where `completion_of` gives text."""
    task, witness = trajectory.task, trajectory.witness
    if isinstance(task.prompt, str) and not _schemas(trajectory):
        return task.prompt
    messages = task.messages if witness is None else witness.prompt
    return [*map(chat_dict, messages)]


def completion_of(trajectory: Trajectory, decode: Decode) -> Any:
    """What followed the prompt: chat dictionaries, or one text for a text prompt without tools.

    As in TRL, an assistant message is parsed (`reasoning_content`, `tool_calls`) only where the
    episode has tools; else its content is everything that the model wrote.
    """
    schemas = _schemas(trajectory)
    if isinstance(trajectory.task.prompt, str) and not schemas:
        return decode(_response_ids(trajectory))
    replies = () if trajectory.witness is None else trajectory.witness.replies
    messages: list[dict[str, Any]] = []
    for position, turn in enumerate(trajectory.turns):
        messages.append(chat_dict(_assistant(turn, schemas, decode)))
        if position < len(replies):
            messages += map(chat_dict, replies[position])
    return messages


def _assistant(turn: Turn, schemas: Mapping[str, Any], decode: Decode) -> Message:
    action = turn.action
    if not schemas or action.parse_error is not None:
        return Message("assistant", decode(turn.output_ids))
    calls = tuple(
        ToolCall(call.name, typed_arguments(schemas.get(call.name), call.arguments), call.id)
        for call in action.tool_calls
    )
    return Message("assistant", action.text, action.reasoning, calls)


def _schemas(trajectory: Trajectory) -> dict[str, Any]:
    tools = () if trajectory.witness is None else trajectory.witness.environment.tools
    return {tool["function"]["name"]: tool for tool in tools}


def _response_ids(trajectory: Trajectory) -> list[int]:
    return [i for segment in trajectory.segments for i in segment.response_ids]


def _world(trajectory: Trajectory) -> Any:
    return None if trajectory.witness is None else trajectory.witness.environment.world


def _listed(rewards: Any) -> list[Any]:
    return [reward.item() if hasattr(reward, "item") else reward for reward in rewards]


async def _listed_later(rewards: Any) -> list[Any]:
    return _listed(await rewards)


def _ignore(name: str, value: Any) -> None:
    """Take what TRL would log; retrain keeps each component's reward instead."""
