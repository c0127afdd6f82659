"""What belongs to one event loop: work that many callers wait for, and one value per loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from retrain.pausing import standing_still

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Work for which any number of callers wait; when the last of them leaves, it ends.

    Until `begin` is called, the callers' deadlines stand still: what waits for its turn is not
    late.
    """

    def __init__(self, work: Callable[[SharedWork[T]], Awaitable[T]]) -> None:
        """Start the work in the running loop.

        Args:
            work: Gets this object.
        """
        self.waiting = 0
        self._begun = asyncio.Event()
        context = contextvars.Context()  # of none of its callers: their deadlines are not its own
        self.task: asyncio.Task[T] = asyncio.create_task(self._run(work), context=context)
        self.task.add_done_callback(self._ended)

    def begin(self) -> None:
        """Say that the work's turn has come."""
        self._begun.set()

    async def result(self) -> T:
        """Wait for what the work gives, or raises."""
        self.waiting += 1
        try:
            async with standing_still():
                await self._begun.wait()
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.task.cancel()

    async def _run(self, work: Callable[[SharedWork[T]], Awaitable[T]]) -> T:
        return await work(self)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._begun.set()
        if not task.cancelled():
            task.exception()  # whoever waits gets it; where nobody does, nobody complains


class PerLoop(Generic[T]):
    """One value per event loop; those of loops that are over are closed when they are noticed.

    Args:
        make: Makes the value of the running loop.
        close: Closes a value, from any thread.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], None]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        """The running loop's value."""
        loop = asyncio.get_running_loop()
        with self._lock:
            value = self._values.get(loop)
            if value is None:
                for over in [other for other in self._values if other.is_closed()]:
                    self._close(self._values.pop(over))
                value = self._values[loop] = self._make()
            return value

    def take_here(self) -> T | None:
        """The running loop's value, which is then no longer kept."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)

    def close(self) -> None:
        """Close every value; later ones are made anew."""
        with self._lock:
            values = list(self._values.values())
            self._values.clear()
        for value in values:
            self._close(value)
