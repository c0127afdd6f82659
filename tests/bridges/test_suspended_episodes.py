"""What a suspended episode gives up: its seat, and the time of its deadlines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from counting_worlds import CountingWorld
from test_continuing import LIMITS, TASKS, engine_of
from virtual_clock import run_virtual

from bridges import (
    EnvironmentBridge,
    FailurePolicy,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import SamplingParams
from retrain.errors import TooManyFailures
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.filters import check_reward_nonzero_std
from retrain.rollout.manager import RolloutManager
from retrain.sample import Status
from retrain.types import Action, Observation, StepResult, Task, Trajectory


class Peak:
    """Counts the worlds that are stepped or prompted at the same time."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0


def managed(
    renderer: DeltaRenderer,
    how: OverSampling,
    *,
    world: Any = CountingWorld,
    engine: Any = None,
    component: Any = None,
    limits: Any = LIMITS,
    **settings: Any,
) -> RolloutManager:
    options = {"params": SamplingParams(max_tokens=200), "n_samples": 2, **settings}
    reward = component or RewardComponent("environment", ComponentKind.ENVIRONMENT)
    bridge = RolloutBridge(
        EnvironmentBridge(renderer, world, limits),
        RewardBridge(RewardCalculator([reward])),
        engine or engine_of("1"),
        RolloutSettings(**options),
    )
    return bridge.managed(DataBuffer(TASKS, seed=1), how)


async def batches(manager: RolloutManager, count: int, pause: float = 0.0) -> list[Batch]:
    found = []
    async with manager:
        for _ in range(count):
            found.append(await manager.collect())
            await asyncio.sleep(pause)
    return found


def episodes(found: list[Batch]) -> list[Trajectory]:
    return [t for batch in found for group in batch.groups for t in group.trajectories]


def test_training_between_batches_counts_for_no_deadline(renderer: DeltaRenderer) -> None:
    """The optimizer's hour is no answer of the engine that takes too long."""
    limits = replace(LIMITS, generate_timeout=5.0)
    how = OverSampling(2, 2.0)
    manager = managed(renderer, how, limits=limits, episode_timeout=20.0)
    found = run_virtual(batches(manager, 8, pause=3600.0))
    assert any(batch.tally.carried for batch in found)
    assert {episode.status for episode in episodes(found)} == {Status.COMPLETED}


def test_an_engine_that_hangs_still_meets_its_deadline(renderer: DeltaRenderer) -> None:
    limits = replace(LIMITS, generate_timeout=0.5, engine_retries=0)
    policy = FailurePolicy(actions={}, max_failure_rate=1.0)
    manager = managed(renderer, OverSampling(4), limits=limits, policy=policy)
    found = run_virtual(batches(manager, 4))
    failed = [e for e in episodes(found) if e.error is not None]
    assert failed and all("no answer within 0.5 s" in e.error.reason for e in failed if e.error)


def test_suspended_episodes_leave_their_seats(renderer: DeltaRenderer) -> None:
    """Two seats; long episodes that are suspended must not keep others from being played."""
    peak = Peak()

    class Watched(CountingWorld):
        async def step(self, action: Action) -> StepResult:
            peak.open += 1
            peak.most = max(peak.most, peak.open)
            await asyncio.sleep(0.01)
            peak.open -= 1
            return await super().step(action)

    def newest(groups: Any, count: int) -> Any:
        return groups[-1:][:count]

    how = OverSampling(2, 3.0, buffer_filter=newest)
    manager = managed(renderer, how, world=Watched, concurrency=2)
    found = run_virtual(batches(manager, 12))
    assert len(episodes(found)) == 12 * 2 * 2
    assert peak.most <= 2


def test_nothing_is_begun_while_the_gate_is_shut(renderer: DeltaRenderer) -> None:
    resets: list[str] = []

    class Noted(CountingWorld):
        async def reset(self, task: Task, seed: int) -> Observation:
            resets.append(task.id)
            return await super().reset(task, seed)

    async def go() -> tuple[int, int]:
        manager = managed(renderer, OverSampling(2, 3.0), world=Noted, concurrency=2)
        async with manager:
            await manager.collect()
            before = len(resets)
            await asyncio.sleep(100.0)
            return before, len(resets)

    before, after = run_virtual(go())
    assert before == after


def test_a_slow_judge_is_not_waited_for_once_the_batch_is_full(renderer: DeltaRenderer) -> None:
    async def judge(trajectory: Trajectory) -> float:
        await asyncio.sleep(1000.0 if trajectory.task.id in ("task-0", "task-1") else 0.1)
        return 1.0

    async def go() -> tuple[float, list[Batch]]:
        component = RewardComponent("judge", ComponentKind.ROLLOUT, judge, timeout=None)
        manager = managed(renderer, OverSampling(2, 2.0), component=component)
        loop = asyncio.get_running_loop()
        async with manager:
            found = [await manager.collect() for _ in range(2)]
            seconds = loop.time()
            await asyncio.sleep(2000.0)
            found.append(await manager.collect())
            return seconds, found

    seconds, found = run_virtual(go())
    assert seconds < 500.0
    judged = {group.task.id for group in found[-1].groups}
    assert judged & {"task-0", "task-1"}, "they were carried over, and judged meanwhile"
    assert found[-1].tally.restarted == 0


def test_too_many_failures_stop_the_run_though_a_filter_drops_them(
    renderer: DeltaRenderer,
) -> None:
    class Broken(CountingWorld):
        async def step(self, action: Action) -> StepResult:
            raise OSError("the world broke")

    how = OverSampling(2, filter=check_reward_nonzero_std)
    with pytest.raises(TooManyFailures, match="the world broke"):
        run_virtual(batches(managed(renderer, how, world=Broken), 1))


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_without_over_sampling_episodes_follow_from_their_seeds(
    renderer: DeltaRenderer, concurrency: int
) -> None:
    def segments(seats: int) -> Any:
        manager = managed(renderer, OverSampling(3), concurrency=seats)
        found = run_virtual(batches(manager, 3))
        return [(b.iteration, g.index, g.advantages) for b in found for g in b.groups], [
            e.segments for e in episodes(found)
        ]

    assert segments(concurrency) == segments(64)
