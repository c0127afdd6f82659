"""Reads a class as TRL's `environment_factory` reads it: its tools, their schemas, its `reset`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MethodType
from typing import Any

from retrain.environment.base import Environment, ToolSchema
from retrain.errors import ConfigError, EnvironmentFailure, MissingDependency

RESET, REWARD = "reset", "get_reward"


def has_tool_methods(cls: Any) -> bool:
    """Whether something is a class as TRL takes it: `reset`, no `step`, and tools or a reward.

    A class whose `reset` takes `task`, and no further columns, is one of retrain's own style.
    """
    if not inspect.isclass(cls) or issubclass(cls, Environment) or hasattr(cls, "step"):
        return False
    reset = getattr(cls, RESET, None)
    if not inspect.isfunction(reset) or _takes_a_task(reset):
        return False
    return bool(tool_attributes(cls)) or inspect.isfunction(getattr(cls, REWARD, None))


def tool_attributes(cls: type) -> dict[str, str]:
    """The names of the public methods by the name that the model calls, in alphabetical order.

    As in TRL: class methods and properties are no tools, static and inherited methods are.
    """
    return {
        function.__name__: name
        for name, function in inspect.getmembers(cls, inspect.isfunction)
        if name not in (RESET, REWARD) and not name.startswith("_")
    }


@lru_cache(maxsize=64)
def tool_schemas(cls: type) -> tuple[ToolSchema, ...]:
    """The tools' schemas, made by transformers itself, so that prompts are TRL's to the letter.

    Raises:
        ConfigError: A method has no type hints or no Google docstring that names every argument.
        MissingDependency: transformers is not installed.
    """
    try:
        from transformers.utils import chat_template_utils as describing
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "the tools of a TRL environment are described with transformers; install it with: "
            "pip install 'retrain[trl]'"
        ) from error
    faults = (
        describing.DocstringParsingException,
        describing.TypeHintParsingException,
        NameError,
        TypeError,
        ValueError,
    )
    schemas = []
    for name in tool_attributes(cls).values():
        static = isinstance(inspect.getattr_static(cls, name), staticmethod)
        function = getattr(cls, name)
        try:
            schemas.append(
                describing.get_json_schema(function if static else MethodType(function, cls))
            )
        except faults as error:
            raise ConfigError(f"environment.type: {cls.__qualname__}.{name}: {error}") from error
    return tuple(schemas)


def reset_arguments(reset: Callable[..., Any], row: Mapping[str, Any], of: str) -> dict[str, Any]:
    """The columns that a `reset` takes: all of them, or only those that it names.

    Args:
        reset: The bound method.
        row: The columns.
        of: Whose they are, for the message ("task 'a'").

    Raises:
        EnvironmentFailure: It needs a column that is not there, or takes no columns by name.
    """
    parameters = inspect.signature(reset).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    missing = [name for name, p in named.items() if p.default is p.empty and name not in row]
    if missing:
        raise EnvironmentFailure(
            f"reset needs {', '.join(missing)}; {of} has the columns {', '.join(row)}"
        )
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(row)
    return {name: row[name] for name in named if name in row}


def _takes_a_task(reset: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(reset).parameters.values())[1:]
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return not is_open and bool(parameters) and parameters[0].name == "task"
