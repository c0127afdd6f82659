"""Runs synchronous code off the event loop, without letting a call that hangs hold anything up.

`asyncio.to_thread` is not enough for other people's code: its threads are joined when the
interpreter exits, so one call that hangs keeps the process alive; and a few hung calls use up the
pool. Here the threads are daemons, and a thread that hangs is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")

_NOT_FOR_A_LOOP = (
    StopIteration,
    GeneratorExit,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
)


class JobState(Enum):
    """Where a call stands; changed under the lock of its threads only."""

    WAITING = auto()
    RUNNING = auto()
    ABANDONED = auto()
    FINISHED = auto()


class Job:
    """One call on its way through a thread.

    Attributes:
        function: What is called, without arguments.
        begun: Done as soon as a thread takes the call up.
        outcome: The call's result or exception.
        state: Where it stands.
    """

    __slots__ = ("begun", "function", "outcome", "state")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.begun: Future[None] = Future()
        self.outcome: Future[Any] = Future()
        self.state = JobState.WAITING


class DaemonThreads:
    """At most `limit` daemon threads, started when there is work, for calls in order of arrival.

    Args:
        limit: Most calls that run at once.
        name: Name of the threads, as a debugger shows it.
        replace_hung: Whether a call that nobody waits for any more stops counting towards `limit`.
    """

    def __init__(self, limit: int, name: str, *, replace_hung: bool = True) -> None:
        self._limit = limit
        self._name = name
        self._replace_hung = replace_hung
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._idle = 0
        self._threads = 0
        self._running = 0
        self._closed = False

    @property
    def running(self) -> int:
        """How many calls are running now, abandoned ones not counted."""
        return self._running

    def submit(self, function: Callable[[], Any]) -> Job:
        """Queue a call.

        Raises:
            RuntimeError: The threads have been shut down.
        """
        job = Job(function)
        with self._changed:
            if self._closed:
                raise RuntimeError(f"{self._name}: the threads have been shut down")
            self._waiting.append(job)
            self._wake()
        return job

    def leave(self, job: Job) -> None:
        """Say that nobody waits for `job` any more; nothing happens to one that is done."""
        with self._changed:
            if job.state is JobState.WAITING:
                self._waiting.remove(job)
                job.state = JobState.FINISHED
            elif job.state is JobState.RUNNING and self._replace_hung:
                job.state = JobState.ABANDONED
                self._running -= 1
                self._threads -= 1
                self._wake()

    def shutdown(self) -> None:
        """Let the threads end once the queued calls are done; does not wait for them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        if self._idle >= len(self._waiting):
            self._changed.notify()
        elif self._waiting and self._threads < self._limit:
            self._threads += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._take()) is not None:
            publish = _run(job)
            with self._changed:
                replaced = job.state is JobState.ABANDONED
                job.state = JobState.FINISHED
                self._running -= 0 if replaced else 1
            publish()
            if replaced:
                return

    def _take(self) -> Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._idle -= 1
            if not self._waiting:
                self._threads -= 1
                return None
            job = self._waiting.popleft()
            job.state = JobState.RUNNING
            self._running += 1
            return job


def _run(job: Job) -> Callable[[], object]:
    """Run a job; what comes back publishes its result.

    What would tear the event loop down, or what its futures cannot carry, becomes a RuntimeError.
    """
    if not job.outcome.set_running_or_notify_cancel():
        return _nothing
    if job.begun.set_running_or_notify_cancel():
        job.begun.set_result(None)
    try:
        return partial(job.outcome.set_result, job.function())
    except _NOT_FOR_A_LOOP as error:
        wrapped = RuntimeError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return partial(job.outcome.set_exception, wrapped)
    except Exception as error:  # noqa: BLE001 - handed over unchanged to whoever waits
        return partial(job.outcome.set_exception, error)


def _nothing() -> None:
    """Publish nothing: nobody waits for the result."""


async def call_in_thread(
    threads: DaemonThreads,
    function: Callable[..., T],
    *args: Any,
    within: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> T:
    """Call a synchronous function off the event loop, in a copy of the caller's context.

    Args:
        threads: Where it runs.
        function: The function.
        *args: Its arguments.
        within: Entered when a thread takes the call up, so that a time limit in it does not count
            the wait for a thread.

    Returns:
        What the function returns.
    """
    job = threads.submit(partial(contextvars.copy_context().run, function, *args))
    try:
        await asyncio.wrap_future(job.begun)
        async with within():
            return cast(T, await asyncio.wrap_future(job.outcome))
    finally:
        threads.leave(job)


async def call(
    threads: DaemonThreads,
    function: Callable[..., Any],
    *args: Any,
    within: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> Any:
    """Call a function that may be synchronous or asynchronous, and await what is awaitable.

    Args:
        threads: Where a synchronous function runs; an asynchronous one runs on the event loop.
        function: The function.
        *args: Its arguments.
        within: As for `call_in_thread`.
    """
    if is_async(function):
        async with within():
            return await cast(Awaitable[Any], function(*args))
    result = await call_in_thread(threads, function, *args, within=within)
    if not inspect.isawaitable(result):
        return result
    async with within():
        return await result


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; sees through partials and objects with `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected
    )
