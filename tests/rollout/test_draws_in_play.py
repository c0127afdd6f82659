"""What the manager refuses, and counts once, whatever interrupts it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

import pytest
from timed_play import TimedEngine, TimedPlay
from virtual_clock import run_virtual

from retrain.errors import ConfigError, DataError
from retrain.rollout.filling import Filling, OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Finished
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Group, StopReason, Task, Trajectory

TASK = Task("task-0", "q")


class Again:
    """Draws one index over and over."""

    def draw(self, count: int) -> list[GroupRequest]:
        return [GroupRequest(7, TASK, 0)] * count


def test_an_index_that_is_in_play_is_not_begun_again() -> None:
    async def collect() -> None:
        gate = GatedEngine(TimedEngine())
        async with RolloutManager(TimedPlay(gate), Again(), gate, OverSampling(2)) as manager:
            await manager.collect()

    with pytest.raises(DataError, match=r"group 7 \(task 'task-0', visit 0\) was drawn twice"):
        run_virtual(collect())


@pytest.mark.parametrize("number", [math.inf, math.nan, -math.inf])
@pytest.mark.parametrize("name", ["factor", "max_refills"])
def test_settings_that_are_no_numbers_are_refused(name: str, number: float) -> None:
    with pytest.raises(ConfigError, match=r"over-sampling needs .* finite"):
        OverSampling(2, **{name: number})


def test_a_group_whose_judge_was_cancelled_counts_once() -> None:
    checked: list[int] = []
    seed = EpisodeSeed(0, "train", "task-0", 0, 0)
    episode = Trajectory(TASK, seed, (), Status.COMPLETED, StopReason.TERMINATED, reward=1.0)
    done = Finished(0, Group(0, TASK, 0, (episode,)))

    def check(episodes: Iterable[Trajectory]) -> None:
        checked.append(len(list(episodes)))

    async def slow(group: Group) -> bool:
        await asyncio.sleep(1.0)
        return True

    async def ask_twice() -> None:
        filling = Filling(OverSampling(1, filter=slow), check)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await filling.take(done)
        await filling.take(done)
        filling.check_failures()

    run_virtual(ask_twice())
    assert checked == [1]
