"""The engine's one thread: it runs all forwards, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from retrain.engine.base import Generation
from retrain.engine.transformers_memory import is_out_of_memory
from retrain.engine.transformers_mode import GenerationMode
from retrain.engine.transformers_requests import Request
from retrain.engine.transformers_scheduler import Scheduler
from retrain.errors import EngineFailure

Command = Callable[[], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Caller:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Generation]

    def answer(self, result: Generation | EngineFailure | None) -> None:
        with suppress(RuntimeError):  # the caller's loop has been closed: nobody waits any more
            self.loop.call_soon_threadsafe(_settle, self.future, result)


class Worker:
    """Owns a scheduler: commands reach it through a queue, results leave through futures."""

    def __init__(
        self, scheduler: Scheduler, mode: GenerationMode, *, when_out_of_memory: str = ""
    ) -> None:
        """Start the thread.

        Args:
            scheduler: What to step; nobody else may touch it from now on.
            mode: What to enter while there is something to do.
            when_out_of_memory: What to do then; stands on the failure.
        """
        self._scheduler = scheduler
        self._mode = mode
        self._when_out_of_memory = when_out_of_memory
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._callers: dict[Request, _Caller] = {}
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="retrain-engine", daemon=True)
        self._thread.start()

    async def run(self, request: Request) -> Generation:
        """Have a request served.

        Raises:
            EngineFailure: It could not be served.
        """
        loop = asyncio.get_running_loop()
        caller = _Caller(loop, loop.create_future())
        self.post(lambda: self._submit(request, caller))
        try:
            return await caller.future
        except asyncio.CancelledError:
            self.post(lambda: self._drop(request))
            raise

    def post(self, command: Command) -> None:
        """Have the thread run a command between two steps, in order of posting.

        Raises:
            EngineFailure: The thread has been stopped.
        """
        with self._closing:
            if self._closed:
                raise EngineFailure("the engine is closed")
            self._commands.put(command)

    async def between_steps(self, change: Callable[[], T]) -> T:
        """Have the thread call a function while no forward runs, and give its result.

        Raises:
            EngineFailure: The thread has been stopped.
        """
        outcome: Future[T] = Future()
        self.post(lambda: _call(change, outcome))
        return await asyncio.wrap_future(outcome)

    def close(self) -> None:
        """Stop the thread after the step it is in; whoever waits gets an `EngineFailure`."""
        with self._closing:
            self._closed = True
            self._commands.put(_nothing)
        self._thread.join()

    def _submit(self, request: Request, caller: _Caller) -> None:
        self._callers[request] = caller
        self._scheduler.submit(request)

    def _drop(self, request: Request) -> None:
        if request in self._callers:
            self._scheduler.abort(request.session_id)

    def _work(self) -> None:
        try:
            while not self._closed:
                self._turn()
        finally:
            self._stop()

    def _turn(self) -> None:
        self._take_commands()
        if self._scheduler.delay() == 0.0:
            self._step()
        if self._scheduler.delay() is None:
            self._mode.leave()
        self._deliver()

    def _stop(self) -> None:
        """Leave nobody waiting, whatever ended the thread."""
        with self._closing:
            self._closed = True
        while not self._commands.empty():
            self._commands.get()()
        self._scheduler.fail("the engine is closed")
        self._deliver()
        self._mode.leave()

    def _take_commands(self) -> None:
        """Run what is queued; wait for a command only while there is nothing else to do."""
        wait = self._scheduler.delay()
        with suppress(queue.Empty):
            self._commands.get(block=wait != 0.0, timeout=wait)()
            while True:
                self._commands.get_nowait()()

    def _step(self) -> None:
        try:
            self._attempt()
        except EngineFailure as failure:
            self._scheduler.fail(str(failure), failure.__cause__)

    def _attempt(self) -> None:
        try:
            self._mode.enter()
            self._scheduler.step()
        except Exception as error:
            reason = f"generation: {type(error).__name__}: {error}"
            if is_out_of_memory(error):
                reason = f"{reason}\n{self._when_out_of_memory}"
            raise EngineFailure(reason) from error

    def _deliver(self) -> None:
        for request in self._scheduler.finished():
            self._callers.pop(request).answer(request.result)


def _call(change: Callable[[], T], outcome: Future[T]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        outcome.set_result(change())
    except Exception as error:  # noqa: BLE001 - handed over unchanged to whoever waits
        outcome.set_exception(error)


def _nothing() -> None:
    """Wakes the thread."""


def _settle(future: asyncio.Future[Generation], result: Generation | EngineFailure | None) -> None:
    if future.done():
        return
    if isinstance(result, Generation):
        future.set_result(result)
    else:
        future.set_exception(result or EngineFailure("the engine gave no result"))
