"""One persistent event loop in a thread of its own, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from retrain.closing import Closing
from retrain.watchdog import LoopWatchdog, Tell, to_stderr

T = TypeVar("T")

_CLOSE_SECONDS = 10.0
_LOOK_SECONDS = 1.0


class EventLoopThread(Closing):
    """Runs coroutines for a synchronous caller, all in one loop that lives as long as the run.

    Pools, sessions and HTTP clients are bound to the loop that made them; a loop per call would
    break them.
    """

    def __init__(self, *, patience: float = 10.0, tell: Tell = to_stderr) -> None:
        """Start the thread.

        Args:
            patience: Seconds that one call may block the loop before a message says which it is.
            tell: Takes the message.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="retrain-loop", daemon=True)
        self._thread.start()
        self._watchdog = LoopWatchdog(self._loop, self._thread, seconds=patience, tell=tell)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and give its result.

        An interrupt of the caller (Ctrl-C) cancels the coroutine and waits until it has cleaned up.

        Raises:
            RuntimeError: The thread is closed.
        """
        if not self._thread.is_alive():
            coroutine.close()
            raise RuntimeError("the event loop is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return self._wait(future)
        except KeyboardInterrupt:
            self._settle()
            raise
        except CancelledError as error:
            raise RuntimeError("the event loop was closed while it was running this") from error

    @contextmanager
    def entered(self, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an asynchronous context in the loop; the body runs in the caller's thread."""
        value = self.run(_enter(context))
        try:
            yield value
        finally:
            self.run(_leave(context))

    def _wait(self, future: Future[T]) -> T:
        """Wait for a result, and notice when nobody is left to give it."""
        while True:
            done, _ = wait([future], timeout=_LOOK_SECONDS)
            if done:
                return future.result()
            if not self._thread.is_alive():
                raise RuntimeError("the event loop ended while it was running this")

    def close(self) -> None:
        """Cancel what still runs and end the thread; calling it twice is harmless."""
        self._watchdog.stop()
        if self._thread.is_alive():
            self._settle()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _settle(self) -> None:
        """Cancel every task of the loop and wait for their clean-up, but not for a blocked loop."""
        wait([asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)], _CLOSE_SECONDS)


async def _enter(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
