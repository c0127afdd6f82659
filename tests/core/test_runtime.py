from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from retrain import runtime
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


def test_code_that_blocks_the_loop_is_named_once() -> None:
    told: list[str] = []

    async def work() -> str:
        await asyncio.sleep(0)
        time.sleep(1.0)
        return "done"

    with EventLoopThread(patience=0.2, tell=told.append) as thread:
        assert thread.run(work()) == "done"
    (message,) = told
    assert "has blocked the event loop for 0.2 s" in message
    assert f"{__file__}:" in message and "work" in message


def test_a_loop_that_waits_or_works_in_short_calls_is_not_accused() -> None:
    told: list[str] = []

    async def busy() -> None:
        for _ in range(120):
            time.sleep(0.01)
            await asyncio.sleep(0)
        await asyncio.sleep(1.2)

    with EventLoopThread(patience=1.0, tell=told.append) as thread:
        thread.run(busy())
    assert told == []


def test_interrupt_does_not_wait_long_for_a_blocked_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_CLOSE_SECONDS", 0.1)
    release = threading.Event()

    async def block() -> None:
        release.wait(60)

    thread = EventLoopThread()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        thread.run(block())
    release.set()
    thread.close()
