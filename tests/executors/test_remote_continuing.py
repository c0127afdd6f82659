"""Episodes in workers that are suspended between iterations, and that go on after a restart."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from executed_episodes import make_pool, requests, rollouts

from bridges import EnvironmentBridge
from bridges.continuing import record_episode, resume
from bridges.episode import Episode
from bridges.records import EpisodeRecord
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.rendering import DeltaRenderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Trajectory


def slow_engine() -> ScriptedEngine:
    def write(ids: Any, params: SamplingParams, session: str, seed: int) -> list[int]:
        return [*(1000 + seed % 7 + n for n in range(2 + seed % 5)), min(params.stop_token_ids)]

    return ScriptedEngine(write, token_delay=0.005)


async def test_suspended_episodes_give_their_seats_to_an_evaluation(
    renderer: DeltaRenderer,
) -> None:
    pool = make_pool("executor_worlds:Counting", workers=1, episodes_per_worker=2)
    bridge = rollouts(renderer, pool.make)
    bridge.engine = slow_engine()
    tasks = [request.task for request in requests(12)]
    try:
        async with bridge.managed(DataBuffer(tasks, seed=1), OverSampling(1, 3.0)) as manager:
            batches = [await manager.collect() for _ in range(2)]
            (worker,) = pool.crew().queue.workers
            async with asyncio.timeout(60):
                while worker.playing:  # steps end, and the next turn waits at the gate
                    await asyncio.sleep(0.01)
                assert worker.seated > 2
                (evaluated,) = await bridge.collect(requests(1))
                batches += [await manager.collect() for _ in range(2)]
    finally:
        pool.close()
    groups = [evaluated, *(group for batch in batches for group in batch.groups)]
    episodes = [episode for group in groups for episode in group.trajectories]
    assert {(t.status, t.turns[-1].reward) for t in episodes} == {(Status.COMPLETED, 4.0)}


@pytest.mark.parametrize("world", ["Counting", "Repeatable"])
async def test_an_episode_goes_on_in_another_worker_after_a_restart(
    renderer: DeltaRenderer, world: str
) -> None:
    path, params = f"executor_worlds:{world}", SamplingParams(max_tokens=50)
    request, seed = requests(1)[0], EpisodeSeed(7, "train", "t", 0, 0)

    def bridge(pool: Any) -> EnvironmentBridge:
        return rollouts(renderer, pool.make).environment

    async def play(pool: Any) -> tuple[Trajectory, EpisodeRecord]:
        seen: list[Episode] = []
        task = asyncio.create_task(
            bridge(pool).run(
                request.task, engine=slow_engine(), params=params, seed=seed, watch=seen.append
            )
        )
        while not seen or len(seen[0].stream.turns) < 2 or not seen[0].asking:
            await asyncio.sleep(0)
        record = await record_episode(seen[0], lambda session: None)
        assert record is not None
        return await task, EpisodeRecord.of_json(json.loads(json.dumps(record.to_json())))

    first, second = make_pool(path, workers=1), make_pool(path, workers=1)
    try:
        whole, record = await play(first)
        again = await resume(
            bridge(second), record, request.task, seed, engine=slow_engine(), params=params
        )
    finally:
        first.close()
        second.close()
    assert again is not None
    assert again.segments == whole.segments
    assert again.turns[-1].reward == 4.0
