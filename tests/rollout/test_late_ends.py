"""Groups that finish or fail in the moment in which they are ended."""

from __future__ import annotations

import asyncio

import pytest
from test_saved_in_between import manager_of
from timed_play import TimedPlay
from virtual_clock import run_virtual

from retrain.errors import EngineFailure
from retrain.rollout.filling import OverSampling
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.types import Group


def by_index(request: GroupRequest, member: int) -> int:
    return 3 + 50 * request.index


class FinishesAllTheSame(TimedPlay):
    """Does not hear that it is ended."""

    async def __call__(self, visit: Visit) -> Group:
        request = visit.request
        try:
            return await super().__call__(visit)
        except asyncio.CancelledError:
            return Group(request.index, request.task, request.visit, ())


def test_a_group_that_finishes_while_the_manager_closes_is_withdrawn_once() -> None:
    manager, _, _ = manager_of(
        OverSampling(1, 3.0), lambda gate: FinishesAllTheSame(gate, by_index)
    )

    async def go() -> None:
        async with manager:
            assert [group.index for group in (await manager.collect()).groups] == [0]
        assert sorted(request.index for request in manager.withdraw()) == [1, 2]
        assert manager.requests() == [], "they are someone else's now"
        async with manager:
            (group,) = (await manager.collect()).groups
            assert group.index == 3

    run_virtual(go())


class FailsOnce(TimedPlay):
    """Its second group fails in the end, and goes well when it begins again."""

    async def __call__(self, visit: Visit) -> Group:
        first = not self.begun[visit.request.task.id, visit.request.visit]
        group = await super().__call__(visit)
        if first and visit.request.index == 1:
            raise EngineFailure("the server is gone")
        return group


def test_a_failure_in_the_moment_in_which_groups_are_given_up_is_raised() -> None:
    async def takes_its_time(group: Group) -> bool:
        await asyncio.sleep(0.1)
        return True

    def length(request: GroupRequest, member: int) -> int:
        return (3, 6, 50)[request.index % 3]

    how = OverSampling(1, 3.0, filter=takes_its_time, partial=False)
    manager, _, _ = manager_of(how, lambda gate: FailsOnce(gate, length))

    async def go() -> None:
        async with manager:
            with pytest.raises(EngineFailure, match="the server is gone"):
                await manager.collect()
            assert [request.index for request in manager.requests()] == [0, 1, 2]
            batches = [await manager.collect() for _ in range(3)]
            assert [batch.groups[0].index for batch in batches] == [0, 3, 1]
            assert [batch.tally.unfinished for batch in batches] == [1, 0, 0]

    run_virtual(go())
