"""`@tool`: a plain function that the model can call."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, overload

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from retrain.environment.base import ToolSchema
from retrain.environment.tool_spec import ToolSpec, describe_tool
from retrain.errors import ConfigError, ToolFailure, boundary
from retrain.signatures import problems
from retrain.threads import DaemonThreads, call

_THREADS = DaemonThreads(64, "retrain-tool")


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong ("division by zero").

    Its message becomes the tool's answer. Any other exception means that the tool itself is broken,
    and fails the episode.
    """


class Tool:
    """A function that the model can call: made by `@tool`.

    Calling the object calls the function. On an environment's method, `self.name` is bound to the
    environment like the method itself.

    Args:
        function: A function or a coroutine function with type hints.
        name: The name that the model calls; the function's own by default.
        description: What it does; the docstring's summary by default.
        timeout: Seconds after which a call counts as hung; None leaves it to the environment.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"@tool: {function!r} is no function; put @tool below @staticmethod")
        self.function = function
        self.timeout = timeout
        self.__doc__ = function.__doc__
        self._is_method = _is_method(function)
        self._describe = partial(
            describe_tool, function, name=name, description=description, method=self._is_method
        )
        self._spec: list[ToolSpec] = []

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model and the validator see it; made on first use, shared when bound.

        Raises:
            ConfigError: The function cannot be described.
        """
        if not self._spec:
            self._spec.append(self._describe())
        return self._spec[0]

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.spec.name

    @property
    def schema(self) -> ToolSchema:
        """The tool as chat templates take it."""
        return self.spec.schema

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        if instance is None or not self._is_method:
            return self
        bound = copy.copy(self)
        bound.function = partial(self.function, instance)
        bound._is_method = False
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchecked."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.function!r})"

    async def run(self, arguments: Mapping[str, Any], *, timeout: float | None = None) -> str:
        """Check the model's arguments, call the function, and give the text that the model reads.

        A synchronous function runs off the event loop; its time limit begins when a thread takes
        it up.

        Args:
            arguments: By name, as the model wrote them.
            timeout: Seconds, where the tool sets none itself; None waits for ever.

        Returns:
            The answer, or "Error: …" for bad arguments and for a `ToolError`.

        Raises:
            ToolFailure: The tool hung, raised anything but `ToolError`, or returned what JSON
                cannot express.
        """
        try:
            checked = self.spec.arguments.validate(arguments)
        except ValidationError as error:
            return f"Error: bad arguments for {self.name}: " + "; ".join(problems(error))
        limit = self.timeout if self.timeout is not None else timeout
        within = partial(boundary, ToolFailure, f"tool {self.name}", timeout=limit)
        try:
            result = await call(_THREADS, partial(self.function, **checked), within=within)
        except ToolFailure as failure:
            if isinstance(failure.__cause__, ToolError):
                return f"Error: {failure.__cause__}"
            raise
        async with boundary(ToolFailure, f"tool {self.name}: its result"):
            return _as_text(result)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout: float | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function or a method of an environment a tool that the model can call.

    Its JSON schema comes from the type hints and the docstring. Use it bare, `@tool`, or with
    options, `@tool(timeout=5)`.

    Args:
        function: A function or a coroutine function with type hints.
        name: The name that the model calls; the function's own by default.
        description: What it does; the docstring's summary by default.
        timeout: Seconds after which a call counts as hung; None leaves it to the environment.
    """
    make = partial(Tool, name=name, description=description, timeout=timeout)
    return make if function is None else make(function)


def _is_method(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _as_text(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return str(result)
    return json.dumps(to_jsonable_python(result), ensure_ascii=False)
