"""Seats and deadlines of tasks that are away."""

from __future__ import annotations

import asyncio

import pytest
from virtual_clock import run_virtual

from retrain.errors import EngineFailure, boundary
from retrain.pausing import GO, Seat, away, deadline, holding, seconds_away


def test_a_deadline_stands_still_while_the_task_is_away() -> None:
    async def go() -> float:
        async with deadline(5.0):
            await asyncio.sleep(4.0)
            async with away():
                await asyncio.sleep(100.0)
            await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time()

    assert run_virtual(go()) == pytest.approx(104.5)


def test_what_was_left_of_it_counts_afterwards() -> None:
    async def go() -> None:
        async with boundary(EngineFailure, "generate", timeout=5.0):
            await asyncio.sleep(4.0)
            async with away():
                await asyncio.sleep(100.0)
            await asyncio.sleep(2.0)

    with pytest.raises(EngineFailure, match="no answer within 5 s"):
        run_virtual(go())


def test_nested_deadlines_all_stand_still_and_one_without_end_is_none() -> None:
    async def go() -> None:
        async with deadline(10.0), deadline(None), deadline(3.0):
            for _ in range(5):
                async with away():
                    await asyncio.sleep(50.0)
                await asyncio.sleep(0.5)

    run_virtual(go())


def test_waiting_for_what_was_given_up_costs_no_deadline_anything() -> None:
    class SlowToComeBack:
        def pause(self) -> None:
            """There is nothing to give up."""

        async def resume(self) -> None:
            await asyncio.sleep(100.0)

    async def go() -> float:
        async with deadline(5.0):
            with holding(SlowToComeBack()):
                async with away():
                    await asyncio.sleep(100.0)
                await asyncio.sleep(4.0)
        return asyncio.get_running_loop().time()

    assert run_virtual(go()) == pytest.approx(204.0)


def test_a_task_that_is_cancelled_while_away_frees_its_seat_once() -> None:
    async def go() -> int:
        room = asyncio.Semaphore(1)

        async def play() -> None:
            async with Seat(room), deadline(1.0), away():
                await asyncio.sleep(1000.0)

        task = asyncio.create_task(play())
        await asyncio.sleep(10.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not room.locked()
        await room.acquire()
        return int(room.locked())

    assert run_virtual(go()) == 1


def test_a_seat_is_taken_only_while_the_group_may_go_on() -> None:
    async def go() -> list[str]:
        room, gate, order = asyncio.Semaphore(1), asyncio.Event(), list[str]()

        async def suspended() -> None:
            GO.set(gate)
            async with Seat(room):
                order.append("suspended")

        async def free() -> None:
            async with Seat(room):
                order.append("free")

        tasks = [asyncio.create_task(suspended()), asyncio.create_task(free())]
        await asyncio.sleep(1.0)
        assert order == ["free"]
        gate.set()
        await asyncio.gather(*tasks)
        return order

    assert run_virtual(go()) == ["free", "suspended"]


async def test_time_away_is_measured_in_the_task_that_was() -> None:
    async with away():
        await asyncio.sleep(0.02)
    assert seconds_away() >= 0.02
    assert await asyncio.create_task(asyncio.sleep(0, seconds_away())) >= 0.02
