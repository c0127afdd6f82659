from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retrain.errors import BackendFailure
from retrain.rollout.executors.queue import Seat, WorkerQueue
from retrain.rollout.executors.worker import Worker


class NoLink:
    """A worker that is never asked anything."""

    name = "worker"

    def kill(self, *, patience: float = 0.0) -> None:
        """Nothing runs."""


def worker() -> Worker:
    return Worker(NoLink(), grace=1.0)  # type: ignore[arg-type]


async def settled(*tasks: asyncio.Task[Any]) -> list[bool]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


def taking(queue: WorkerQueue, **how: Any) -> asyncio.Task[Seat]:
    return asyncio.create_task(queue.take(**how))


async def test_episodes_spread_over_workers_and_wait_in_order() -> None:
    queue, (first, second) = WorkerQueue(1), (worker(), worker())
    waiting = [taking(queue) for _ in range(4)]
    assert await settled(*waiting) == [False] * 4
    queue.join(first)
    queue.join(second)
    assert await settled(*waiting) == [True, True, False, False]
    assert {task.result().worker for task in waiting[:2]} == {first, second}
    queue.release(waiting[1].result())
    assert await settled(*waiting) == [True, True, True, False]


async def test_one_that_stops_waiting_leaves_no_seat_taken() -> None:
    queue, only = WorkerQueue(1), worker()
    queue.join(only)
    seat = await queue.take()
    waiting = [taking(queue), taking(queue)]
    await settled(*waiting)
    waiting[0].cancel()
    queue.release(seat)
    waiting[1].cancel()
    assert await settled(*waiting) == [True, True]
    assert only.playing == 0


async def test_who_comes_back_goes_first_and_to_the_same_worker() -> None:
    queue, only = WorkerQueue(1), worker()
    queue.join(only)
    suspended = await queue.take()
    queue.release(suspended)
    playing = await queue.take()
    new = taking(queue)
    back = asyncio.create_task(queue.take_back(suspended))
    assert await settled(new, back) == [False, False]
    queue.release(playing)
    assert await settled(new, back) == [False, True]
    queue.release(suspended)
    assert await settled(new, back) == [True, True]


async def test_who_comes_back_to_a_worker_that_ended_is_let_through() -> None:
    queue, only = WorkerQueue(1), worker()
    queue.join(only)
    suspended = await queue.take()
    queue.release(suspended)
    await queue.take()
    back = asyncio.create_task(queue.take_back(suspended))
    assert await settled(back) == [False]
    only.lose("killed")
    queue.leave(only)
    assert await settled(back) == [True]


async def test_who_plays_alone_waits_for_an_empty_worker_and_keeps_others_out() -> None:
    queue, only = WorkerQueue(3), worker()
    queue.join(only)
    others = [await queue.take(), await queue.take()]
    alone, new = taking(queue, alone=True), taking(queue)
    assert await settled(alone, new) == [False, False]
    for seat in others:
        queue.release(seat)
    assert await settled(alone, new) == [True, False]
    queue.release(alone.result())
    assert await settled(alone, new) == [True, True]
    assert only.playing == 1


async def test_one_that_no_longer_wants_to_play_alone_keeps_nobody_out() -> None:
    queue, only = WorkerQueue(3), worker()
    queue.join(only)
    await queue.take()
    alone, new = taking(queue, alone=True), taking(queue)
    assert await settled(alone, new) == [False, False]
    alone.cancel()
    assert await settled(alone, new) == [True, True]
    assert new.result().worker is only
    assert only.playing == 2


async def test_a_worker_that_ended_gets_nobody() -> None:
    queue, (dead, alive) = WorkerQueue(9), (worker(), worker())
    queue.join(dead)
    queue.join(alive)
    dead.lose("killed")
    assert {(await queue.take()).worker for _ in range(4)} == {alive}


async def test_everybody_learns_that_there_will_be_no_worker() -> None:
    queue = WorkerQueue(1)
    waiting = [taking(queue), taking(queue, alone=True)]
    await settled(*waiting)
    queue.fail(BackendFailure("no workers"))
    for task in waiting:
        with pytest.raises(BackendFailure, match="no workers"):
            await task
    with pytest.raises(BackendFailure, match="no workers"):
        await queue.take()
