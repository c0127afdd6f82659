"""`@tool`: a plain function that the model can call."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, overload
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from retrain.environment.argument_types import typed_arguments
from retrain.environment.base import ToolSchema
from retrain.environment.tool_errors import ToolError, ToolErrors, error_text
from retrain.environment.tool_spec import ToolSpec, describe_tool
from retrain.environment.tool_text import shown_answer
from retrain.errors import ConfigError, ToolFailure, boundary
from retrain.signatures import problems
from retrain.threads import DaemonThreads, call, is_async

__all__ = ["Tool", "ToolError", "tool"]

_THREADS = DaemonThreads(64, "retrain-tool")


class _Raised(ToolFailure):
    """The tool's own code raised; a `ToolFailure` that it raised itself is none of these."""


class Tool:
    """A function that the model can call: made by `@tool`.

    Calling the object calls the function. On an environment's method, `self.name` is bound to the
    environment like the method itself.

    Args:
        function: A function or a coroutine function with type hints.
        name: The name that the model calls; the function's own by default.
        description: What it does; the docstring's summary by default.
        timeout: Seconds after which a call counts as hung; None leaves it to the environment.
        limit: Most calls that run at once, over all episodes of this process; None for no limit.

    Raises:
        ConfigError: It is no function, or a number is not positive.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"@tool: {function!r} is no function; put @tool below @staticmethod")
        for option, number in (("timeout", timeout), ("limit", limit)):
            if number is not None and not number > 0:
                raise ConfigError(f"@tool: {option} must be positive: {number}")
        self.function = function
        self.timeout = timeout
        self.__doc__ = function.__doc__
        self._is_method = _is_method(function)
        self._bound = False
        self._describe = partial(
            describe_tool, function, name=name, description=description, method=self._is_method
        )
        self._spec: list[ToolSpec] = []
        self._room = _Room(limit)

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

    @property
    def serial(self) -> bool:
        """Whether calls of one turn run one after another, in the order written.

        So it is for the synchronous methods of an environment, which share its state.
        """
        return self._bound and not is_async(self.function)

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        if instance is None or not self._is_method:
            return self
        bound = copy.copy(self)
        bound.function = partial(self.function, instance)
        bound._is_method, bound._bound = False, True
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchecked."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.function!r})"

    async def run(
        self,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        errors: ToolErrors = ToolErrors.MESSAGE,
    ) -> str:
        """Check the model's arguments, call the function, and give the text that the model reads.

        A synchronous function runs off the event loop; its time limit begins when a thread takes
        it up.

        Args:
            arguments: By name, as the model wrote them.
            timeout: Seconds, where the tool sets none itself; None waits for ever.
            errors: What the model reads of an exception other than `ToolError`.

        Returns:
            The answer, or "Error: …" for bad arguments and for exceptions that are told.

        Raises:
            ToolFailure: The tool hung, lost a connection or its worker, exited, raised it itself,
                or returned what JSON cannot express.
        """
        try:
            checked = self._checked(arguments)
        except ValidationError as error:
            return f"Error: bad arguments for {self.name}: " + "; ".join(problems(error))
        limit = self.timeout if self.timeout is not None else timeout
        within = partial(boundary, _Raised, f"tool {self.name}", timeout=limit)
        try:
            async with self._room.taken():
                result = await call(_THREADS, partial(self.function, **checked), within=within)
        except _Raised as failure:
            told = error_text(failure.__cause__, errors)
            if told is None:
                raise ToolFailure(str(failure)) from failure.__cause__
            if not isinstance(failure.__cause__, ToolError):
                self._note(failure.__cause__, errors)
            return told
        async with boundary(ToolFailure, f"tool {self.name}: its result"):
            return _as_text(result)

    def _checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the types of the hints.

        Some formats write every value as text. Such text is read as its type where it would be
        refused otherwise, so that text stays text where the tool takes text.

        Raises:
            ValidationError: They do not fit.
        """
        validate = self.spec.arguments.validate
        try:
            return validate(arguments)
        except ValidationError:
            typed = typed_arguments(self.schema, arguments)
            if typed == arguments:
                raise
            return validate(typed)

    def _note(self, error: BaseException | None, errors: ToolErrors) -> None:
        """Let people know, once for each kind of exception, what only the model would read."""
        warnings.warn(
            f"tool {self.name} raised {type(error).__name__}; the model is told so "
            f"(tool_errors: {errors}), and the episode goes on. Raise ToolError where that is "
            "meant, or set tool_errors: fail",
            stacklevel=3,
        )


class _Room:
    """Bounds how many calls run at once, on each event loop."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def taken(self) -> AbstractAsyncContextManager[None]:
        """Wait for room, and give it back at the end."""
        if self._limit is None:
            return nullcontext()
        return self._gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._limit))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    limit: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    limit: int | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function or a method of an environment a tool that the model can call.

    Its JSON schema comes from the type hints and the docstring. Use it bare, `@tool`, or with
    options, `@tool(timeout=5)`.

    Args:
        function: A function or a coroutine function with type hints.
        name: The name that the model calls; the function's own by default.
        description: What it does; the docstring's summary by default.
        timeout: Seconds after which a call counts as hung; None leaves it to the environment.
        limit: Most calls that run at once, over all episodes of this process; None for no limit.
    """
    make = partial(Tool, name=name, description=description, timeout=timeout, limit=limit)
    return make if function is None else make(function)


def _is_method(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _as_text(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return str(result)
    shown = shown_answer(result)
    if shown is not None:
        return shown
    return json.dumps(to_jsonable_python(result), ensure_ascii=False)
