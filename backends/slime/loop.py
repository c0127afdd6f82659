"""Where asynchronous work runs when slime calls a function synchronously."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import wait
from importlib import import_module
from typing import Any, Protocol, TypeVar

from backends.slime.framework import framework
from retrain.runtime import EventLoopThread

T = TypeVar("T")
_CLEAN_UP_SECONDS = 10.0


class Loop(Protocol):
    """Runs a coroutine to its end for a caller that is not asynchronous."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it and give its result."""
        ...


class SlimeLoop:
    """Slime's own loop, since slime's HTTP client belongs to the loop that uses it first."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and give its result.

        An interrupt cancels it and waits until it has cleaned up, so that nothing stays in flight.
        """
        loop = import_module("slime.utils.async_utils").get_async_loop().loop
        future = asyncio.run_coroutine_threadsafe(_guarded(coroutine), loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                wait([future], timeout=_CLEAN_UP_SECONDS)
            raise


async def _guarded(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine


def make_loop() -> Loop:
    """Slime's loop where slime is importable, or one of our own."""
    return SlimeLoop() if framework().real else EventLoopThread()
