from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from retrain.runtime import EventLoopThread


def test_all_calls_share_one_loop() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with EventLoopThread() as thread:
        assert thread.run(loop()) is thread.run(loop())


def test_exception_reaches_the_caller() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with EventLoopThread() as thread, pytest.raises(KeyError):
        thread.run(fail())


def test_interrupt_cancels_and_waits_for_the_clean_up() -> None:
    cleaned = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    with EventLoopThread() as thread:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            thread.run(work())
        assert cleaned.is_set()


def test_close_ends_the_thread_and_what_still_runs() -> None:
    cancelled = threading.Event()

    async def linger() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(linger())
        await asyncio.sleep(0)
        return task

    thread = EventLoopThread()
    thread.run(begin())
    thread.close()
    thread.close()
    assert cancelled.is_set()
    coroutine = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="closed"):
        thread.run(coroutine)
