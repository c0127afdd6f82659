"""Threads for other people's synchronous code."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

from retrain.errors import ToolFailure, boundary
from retrain.threads import DaemonThreads, call, call_in_thread


async def until(condition: partial[bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_no_more_calls_run_at_once_than_allowed_and_all_are_answered() -> None:
    threads = DaemonThreads(3, "t")
    running: list[int] = []
    most = []

    def work(number: int) -> int:
        running.append(number)
        most.append(len(running))
        time.sleep(0.002)
        running.remove(number)
        return number

    answers = await asyncio.gather(*(call_in_thread(threads, work, i) for i in range(100)))

    assert answers == list(range(100))
    assert max(most) == 3
    assert threads.running == 0


async def test_a_time_limit_begins_when_a_thread_takes_the_call_up() -> None:
    threads = DaemonThreads(1, "t")
    within = partial(boundary, ToolFailure, "sleep", timeout=0.5)

    calls = [call_in_thread(threads, time.sleep, 0.15, within=within) for _ in range(6)]

    assert await asyncio.gather(*calls) == [None] * 6


async def test_a_call_that_hangs_is_replaced_and_its_thread_ends_with_it() -> None:
    threads = DaemonThreads(1, "hanging")
    release = threading.Event()
    within = partial(boundary, ToolFailure, "hang", timeout=0.05)

    for _ in range(3):
        with pytest.raises(ToolFailure, match="no answer"):
            await call_in_thread(threads, release.wait, within=within)
    assert await asyncio.wait_for(call_in_thread(threads, int), 5) == 0
    release.set()

    def alive() -> int:
        return sum(thread.name == "hanging" for thread in threading.enumerate())

    await until(partial(lambda: alive() == 1))


async def test_a_waiting_call_that_is_cancelled_never_runs() -> None:
    threads = DaemonThreads(1, "t")
    release = threading.Event()
    ran: list[int] = []
    first = asyncio.ensure_future(call_in_thread(threads, release.wait))
    second = asyncio.ensure_future(call_in_thread(threads, ran.append, 2))
    third = asyncio.ensure_future(call_in_thread(threads, ran.append, 3))
    await asyncio.sleep(0.02)

    second.cancel()
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(first, third)

    assert ran == [3]


@pytest.mark.parametrize(
    "raised", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
async def test_what_a_loop_cannot_carry_becomes_a_runtime_error(
    raised: type[BaseException],
) -> None:
    def work() -> None:
        raise raised("x")

    with pytest.raises(RuntimeError, match=raised.__name__) as error:
        await asyncio.wait_for(call_in_thread(DaemonThreads(1, "t"), work), 5)

    assert isinstance(error.value.__cause__, raised)


async def test_other_exceptions_come_back_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        await call(DaemonThreads(1, "t"), lambda: 1 / 0)


async def test_threads_end_after_a_shutdown_and_take_no_more_calls() -> None:
    threads = DaemonThreads(2, "ending")
    await asyncio.gather(*(call_in_thread(threads, time.sleep, 0.01) for _ in range(2)))

    threads.shutdown()

    with pytest.raises(RuntimeError, match="shut down"):
        await call_in_thread(threads, int)
    await until(partial(lambda: "ending" not in {t.name for t in threading.enumerate()}))


async def test_a_limit_applies_to_asynchronous_functions_too() -> None:
    within = partial(boundary, ToolFailure, "sleep", timeout=0.02)

    with pytest.raises(ToolFailure, match=r"no answer within 0.02 s"):
        await call(DaemonThreads(1, "t"), asyncio.sleep, 5, within=within)
    with pytest.raises(ToolFailure, match=r"no answer within 0.02 s"):
        await call(DaemonThreads(1, "t"), lambda: asyncio.sleep(5), within=within)


def test_the_threads_outlive_an_event_loop() -> None:
    threads = DaemonThreads(2, "t")

    answers = [asyncio.run(call_in_thread(threads, int, i)) for i in range(5)]

    assert answers == list(range(5))
