"""Instances of a user's class, each with its own thread, used by one episode after another.

TRL builds such objects once and resets them often, so many of them hold a connection that nothing
closes. An instance is built, and its synchronous methods run, in one and the same thread.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from retrain.threads import DaemonThreads, call

T = TypeVar("T")


class Seat:
    """One instance and its thread.

    Args:
        construct: Makes the instance, in its thread, when it is first asked for.
        name: Name of the thread.
    """

    def __init__(self, construct: Callable[[], Any], name: str) -> None:
        self._construct = construct
        self._thread = DaemonThreads(1, name, replace_hung=False)
        self._interrupted = False
        self.instance: Any = None

    async def occupy(self) -> Any:
        """The instance, made now if this is its first episode."""
        if self.instance is None:
            self.instance = await self.call(self._construct)
        return self.instance

    async def call(self, method: Callable[..., Any], /, **arguments: Any) -> Any:
        """Call a method: an asynchronous one on the event loop, another one in the thread."""
        return await self.wait(call(self._thread, partial(method, **arguments)))

    async def wait(self, job: Awaitable[T]) -> T:
        """Wait for something that the instance does."""
        try:
            return await job
        except asyncio.CancelledError:
            self._interrupted = True
            raise

    @property
    def busy(self) -> bool:
        """Whether a call runs in the thread."""
        return self._thread.running > 0

    @property
    def reusable(self) -> bool:
        """Whether no call was broken off or still runs."""
        return not self._interrupted and not self.busy

    def retire(self) -> None:
        """Let the thread end."""
        self._thread.shutdown()


class Seats:
    """The instances that no episode uses now. Pickling gives an empty one."""

    def __init__(self) -> None:
        self._free: deque[Seat] = deque()

    def __reduce__(self) -> tuple[type[Seats], tuple[()]]:
        return Seats, ()

    def take(self, borrower: object, construct: Callable[[], Any], name: str) -> Seat:
        """Lend a seat for as long as `borrower` lives.

        Args:
            borrower: Whoever uses it; the seat is free again once nothing refers to it any more.
            construct: Makes an instance where none is free.
            name: Name of a new seat's thread.
        """
        try:
            seat = self._free.pop()
        except IndexError:
            seat = Seat(construct, name)
        weakref.finalize(borrower, self._give_back, seat).atexit = False
        return seat

    def _give_back(self, seat: Seat) -> None:
        if seat.reusable:
            self._free.append(seat)
        else:
            seat.retire()
