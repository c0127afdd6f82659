"""What an episode gives up while its group is suspended: its seat, and the time of its deadlines.

A suspended episode holds no place among those that are played at the same time, and the hours for
which it is suspended count as no answer of an engine or an environment that takes too long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol


class Pausable(Protocol):
    """Something that an episode holds while it is played."""

    def pause(self) -> None:
        """Give it up."""
        ...

    async def resume(self) -> None:
        """Take it again."""
        ...


GO: ContextVar[asyncio.Event | None] = ContextVar("retrain_go", default=None)
"""Set while the group that the running task plays may go on; None where nobody suspends it."""

_HELD: ContextVar[tuple[Pausable, ...]] = ContextVar("retrain_held", default=())
_AWAY: ContextVar[float] = ContextVar("retrain_away", default=0.0)


@asynccontextmanager
async def away() -> AsyncIterator[None]:
    """Give up what the running task holds while the context lasts, and take it again afterwards.

    Deadlines go on last: a wait for a seat or for room in a worker is no fault of the episode's.
    """
    held, began = _HELD.get(), time.perf_counter()
    for item in held:
        item.pause()
    yield
    for item in sorted(held, key=lambda item: isinstance(item, Deadline)):
        await item.resume()
    _AWAY.set(_AWAY.get() + time.perf_counter() - began)


def seconds_away() -> float:
    """How long the running task has been away so far."""
    return _AWAY.get()


@contextmanager
def holding(item: Pausable) -> Iterator[None]:
    """Say that the running task holds something, so that `away` gives it up."""
    token = _HELD.set((*_HELD.get(), item))
    try:
        yield
    finally:
        _HELD.reset(token)


class Deadline:
    """A timeout that stands still while the task is away."""

    def __init__(self, clock: asyncio.Timeout) -> None:
        """Take a timeout that has been entered."""
        self._clock = clock
        self._left: float | None = None

    def pause(self) -> None:
        """Stop the clock."""
        when = self._clock.when()
        if when is not None and not self._clock.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._clock.reschedule(None)

    async def resume(self) -> None:
        """Let it go on with what was left."""
        if self._left is not None:
            self._clock.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = None


@asynccontextmanager
async def standing_still() -> AsyncIterator[None]:
    """Stop the running task's deadlines while the context lasts; it keeps all else that it holds.

    For waits that are no fault of the episode's, such as one for room in a worker.
    """
    clocks = [item for item in _HELD.get() if isinstance(item, Deadline)]
    for clock in clocks:
        clock.pause()
    try:
        yield
    finally:
        for clock in clocks:
            await clock.resume()


@asynccontextmanager
async def deadline(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """`asyncio.timeout`, standing still while the task is away; None waits for ever."""
    async with asyncio.timeout(seconds) as clock:
        with holding(Deadline(clock)):
            yield clock


class Seat:
    """A place among the episodes that are played at the same time; an asynchronous context.

    It is taken only while the group may go on: one that is suspended before it began stays out.
    """

    def __init__(self, room: asyncio.Semaphore) -> None:
        """Take a seat of `room` when entered."""
        self._room = room
        self._taken = False
        self._taking = asyncio.Lock()
        self._holding = holding(self)

    async def __aenter__(self) -> Seat:
        await self.resume()
        self._holding.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._holding.__exit__(kind, error, trace)
        self.pause()

    def pause(self) -> None:
        """Leave the seat to another episode; nothing where it is left already."""
        if self._taken:
            self._taken = False
            self._room.release()

    async def resume(self) -> None:
        """Wait for the group's turn and for a seat; the episodes of a match share theirs."""
        async with self._taking:
            await self._take()

    async def _take(self) -> None:
        go = GO.get()
        while not self._taken:
            if go is not None:
                await go.wait()
            await self._room.acquire()
            if go is None or go.is_set():
                self._taken = True
            else:
                self._room.release()
