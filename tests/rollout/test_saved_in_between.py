"""The manager's state, taken or restored at moments where a visit moves from place to place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from timed_play import TimedEngine, TimedPlay
from virtual_clock import run_virtual

from retrain.errors import BackendFailure
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.manager_state import ManagerState, Pending, write_state
from retrain.rollout.playing import Visit, Written
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task

TASKS = {f"task-{n}": Task(f"task-{n}", "q") for n in range(12)}
RECORDS = {"0": {"segments": []}}


class Recorded(TimedPlay):
    """Saves what it was given; says what each visit began with."""

    def __init__(self, gate: GatedEngine, **play: Any) -> None:
        super().__init__(gate, **play)
        self.given: dict[int, Mapping[str, Any]] = {}

    async def __call__(self, visit: Visit) -> Group:
        async def save(written: Written) -> Mapping[str, Any]:
            return visit.records

        visit.save = save
        self.given[visit.request.index] = visit.records
        return await super().__call__(visit)


def manager_of(
    how: OverSampling,
    play: Callable[[GatedEngine], Any],
    *,
    pending: int = 0,
    begun: int = 0,
    updates: int = 0,
) -> tuple[RolloutManager, DataBuffer, Any]:
    """A manager; with `pending`, one that goes on with so many half-played groups."""
    gate = GatedEngine(TimedEngine())
    played, buffer = play(gate), DataBuffer([*TASKS.values()], seed=1)
    manager = RolloutManager(played, buffer, gate, how)
    if pending:
        waiting = tuple(Pending(request, begun, RECORDS) for request in buffer.draw(pending))
        manager.load_state_dict(write_state(ManagerState(0, waiting, updates=updates)), TASKS)
    return manager, buffer, played


def places(state: Mapping[str, Any]) -> Counter[int]:
    finished = [row["group"]["index"] for row in state["finished"]]
    return Counter([*(row["index"] for row in state["pending"]), *finished])


def test_a_state_that_is_taken_before_a_group_has_begun_keeps_its_records() -> None:
    manager, _, _ = manager_of(OverSampling(2), Recorded, pending=2)

    async def go() -> Any:
        filling = asyncio.create_task(manager.fill())
        saving = asyncio.create_task(manager.saved_state())
        state = await saving
        await filling
        await manager.close()
        return state

    assert [row["records"] for row in run_virtual(go())["pending"]] == [RECORDS, RECORDS]


def test_a_task_in_place_of_a_failed_one_takes_no_half_played_group() -> None:
    class Failing(Recorded):
        async def __call__(self, visit: Visit) -> Group:
            if visit.request.index == 0:
                visit.refill()
            return await super().__call__(visit)

    manager, buffer, played = manager_of(OverSampling(1), Failing, pending=3)

    async def go() -> None:
        async with manager:
            groups = [(await manager.collect()).groups[0].index for _ in range(3)]
            assert groups == [3, 1, 2]

    run_virtual(go())
    assert buffer.drawn == 4 and played.given == {3: {}, 1: RECORDS, 2: RECORDS}


def test_a_half_played_group_that_is_too_old_after_a_restart_counts_as_begun_again() -> None:
    how = OverSampling(2, max_staleness=1)
    manager, _, played = manager_of(how, Recorded, pending=2, begun=1, updates=3)

    async def go() -> Any:
        async with manager:
            return await manager.collect()

    assert run_virtual(go()).tally.restarted == 2
    assert played.given == {0: {}, 1: {}}


class Stubborn(TimedPlay):
    """Groups that finish although they are ended, and others that take long to end."""

    async def __call__(self, visit: Visit) -> Group:
        request = visit.request
        try:
            return await super().__call__(visit)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1 * (request.index % 5))
            if request.index % 2:
                return Group(request.index, request.task, request.visit, ())
            raise


@pytest.mark.parametrize("ended_by", ["the batch", "age"])
def test_a_group_that_finishes_while_it_is_ended_is_in_one_place(ended_by: str) -> None:
    """A state is taken again and again while groups take their time to end."""
    stale = ended_by == "age"
    how = OverSampling(2, 3.0, partial=stale, max_staleness=1 if stale else None)

    def length(request: GroupRequest, member: int) -> int:
        return 3 + 5 * request.index

    manager, buffer, _ = manager_of(how, lambda gate: Stubborn(gate, length))
    trained: Counter[int] = Counter()
    gone = 0

    async def go() -> None:
        nonlocal gone
        ahead = CollectingAhead(manager)
        for _ in range(6):
            batch = await ahead.collect()
            trained.update(group.index for group in batch.groups)
            gone += batch.tally.unfinished
            for step in range(40):
                drawn, state = buffer.drawn, await manager.saved_state()
                found = trained + places(state)
                assert set(found.values()) == {1}
                left = sum(tally["unfinished"] for tally in state["counted"])
                assert found.total() + gone + left == drawn
                await asyncio.sleep(0.02)
                if not step % 8:
                    async with ahead.weights_changing():
                        pass
        await ahead.close()

    run_virtual(go())


def test_a_source_that_fails_loses_no_task_that_waits() -> None:
    class Empty:
        def draw(self, count: int) -> list[GroupRequest]:
            raise BackendFailure("the source is gone")

    gate = GatedEngine(TimedEngine())
    manager = RolloutManager(TimedPlay(gate), Empty(), gate, OverSampling(3))
    manager.enqueue([GroupRequest(0, TASKS["task-0"], 0)])

    async def go() -> None:
        async with manager:
            with pytest.raises(BackendFailure, match="the source is gone"):
                await manager.collect()
            assert [request.index for request in manager.requests()] == [0]

    run_virtual(go())


def test_groups_that_are_given_up_are_counted_and_not_begun_again() -> None:
    how = OverSampling(2, 2.0, partial=False)
    manager, buffer, played = manager_of(how, TimedPlay)

    async def go() -> tuple[int, int]:
        async with manager:
            batches = [await manager.collect() for _ in range(10)]
            left = len(manager.requests())
            return sum(batch.tally.unfinished for batch in batches), left

    unfinished, left = run_virtual(go())
    assert unfinished > 5 and set(played.begun.values()) == {1}
    assert buffer.drawn == 2 * 10 + unfinished + left
