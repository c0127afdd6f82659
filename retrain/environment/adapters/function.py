"""`type: function`: a plain function `(messages) -> reply` is the whole world."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from retrain.environment.adapters.chat import as_chat
from retrain.environment.base import Environment
from retrain.environment.replies import as_step_result
from retrain.errors import ConfigError, EnvironmentFailure, nearest
from retrain.registry import allow_working_directory, load_object
from retrain.threads import DaemonThreads, call
from retrain.types import Action, Message, Observation, StepResult, Task

_KEY = "environment.env_specific_config.function"
_EXTRAS = ("task", "seed")
_ANSWER = ("reply", "reward", "done", "truncated", "info")
_FORMS = (
    "the reply as text or messages, None to end the episode, (reply, reward), or a dictionary "
    f"with {', '.join(_ANSWER)}"
)


class FunctionEnvironment(Environment):
    """Asks a function for the answer to everything that was said so far.

    The prompt is the task's. After each turn of the model the function gets all messages as chat
    dictionaries, new ones each time, and by name, where it takes them, `task` and `seed`. It may be
    asynchronous; another one runs in a thread. It returns text (a user message), one or more
    messages, None to end the episode, a pair (any of these, reward), or a dictionary with any of
    `reply`, `reward`, `done`, `truncated` and `info`.

    Args:
        function: Its import path, `my_module:answer`.
        arguments: Further keyword arguments for it.

    Raises:
        ConfigError: There is no such function, or it cannot be called so.
    """

    def __init__(self, *, function: str, arguments: Mapping[str, Any] | None = None) -> None:
        allow_working_directory()
        self._name = function
        self._function = partial(_checked(function, arguments or {}), **(arguments or {}))
        self._thread = DaemonThreads(1, "retrain-function", replace_hung=False)
        self._said: list[Message] = []
        self._given: dict[str, Any] = {}

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin with the task's prompt."""
        self._said = list(task.messages)
        named = _named(self._function.func)
        extras = {"task": copy.deepcopy(task), "seed": seed}
        self._given = {name: extras[name] for name in _EXTRAS if name in named}
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Ask the function."""
        self._said.append(action.message)
        ask = partial(self._function, as_chat(self._said), **self._given)
        result = _as_result(await call(self._thread, ask), self._name)
        self._said += result.observation.messages
        return result

    async def close(self) -> None:
        """Let the function's thread end."""
        self._thread.shutdown()


def _checked(path: str, arguments: Mapping[str, Any]) -> Callable[..., Any]:
    function: Any = load_object(path, f"{_KEY}: {path!r}")
    if not callable(function) or inspect.isclass(function):
        raise ConfigError(f"{_KEY}: {path!r} is no function")
    named = _named(function)
    try:
        inspect.signature(function).bind(
            [], **{name: None for name in _EXTRAS if name in named}, **arguments
        )
    except TypeError as error:
        raise ConfigError(
            f"{_KEY}: {path!r} cannot be called with (messages) and {sorted(arguments)}: {error}"
        ) from None
    checked: Callable[..., Any] = function
    return checked


def _named(function: Callable[..., Any]) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _as_result(value: Any, name: str) -> StepResult:
    reply, given = _parts(value, name)
    done = given.get("done", reply is None)
    reward, truncated = given.get("reward", 0.0), given.get("truncated", False)
    return as_step_result((reply, reward, done, truncated, given.get("info")))


def _parts(value: Any, name: str) -> tuple[Any, Mapping[str, Any]]:
    """The reply, and what the function says beside it."""
    if isinstance(value, Mapping) and "role" not in value:
        for key in value:
            if key not in _ANSWER:
                known = nearest(str(key), _ANSWER)
                raise EnvironmentFailure(f"{name} returned the key {key!r}; {known}")
        return value.get("reply"), value
    if isinstance(value, tuple):
        if len(value) != 2:
            raise EnvironmentFailure(f"{name} returned {value!r:.80}; expected {_FORMS}")
        return value[0], {"reward": value[1]}
    return value, {}
