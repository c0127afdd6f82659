"""`MethodCalls`: the methods of one object, each where it must run and one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from retrain.errors import EnvironmentFailure, boundary
from retrain.threads import DaemonThreads, call, is_async


class MethodCalls:
    """Calls methods of one object: asynchronous ones on the event loop, others in its thread.

    The thread is always the same one. Context variables that a synchronous method sees or sets are
    there for the next one.
    """

    def __init__(self, owner: object) -> None:
        """Take the object whose methods are called; its thread starts with the first call."""
        self._thread = DaemonThreads(1, f"retrain-{type(owner).__name__}", replace_hung=False)
        self._kept: dict[ContextVar[Any], Any] = {}

    @property
    def busy(self) -> bool:
        """Whether a synchronous call runs, be it one that nobody waits for any more."""
        return self._thread.running > 0

    async def __call__(self, name: str, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method.

        Raises:
            EnvironmentFailure: It raised, or an earlier call still runs.
        """
        if self.busy:
            raise EnvironmentFailure(
                f"{name}: an earlier call of this environment is still running"
            )
        async with boundary(EnvironmentFailure, name):
            return await call(self._thread, self._in_context(method), *args)

    async def close(self, close: Callable[..., Any] | None) -> None:
        """Call the object's `close`, where it has one; after a call that hangs, without waiting.

        Raises:
            EnvironmentFailure: It raised.
        """
        try:
            if close is None:
                return
            if self.busy and not is_async(close):
                self._thread.submit(close)
            else:
                await self("close", close)
        finally:
            self._thread.shutdown()

    def _in_context(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Let a synchronous method see the context variables that earlier ones set."""
        if is_async(method):
            return method

        def run(*args: Any) -> Any:
            before = copy_context()
            for variable, value in self._kept.items():
                variable.set(value)
            try:
                return method(*args)
            finally:
                self._kept |= _changes(before, copy_context())

        return run


def _changes(before: Context, after: Context) -> dict[ContextVar[Any], Any]:
    return {
        variable: value
        for variable, value in after.items()
        if variable not in before or before[variable] is not value
    }
