"""A state is saved although the worker of a suspended episode has died."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest
from executed_episodes import make_pool, requests, rollouts
from test_remote_continuing import slow_engine

from retrain.rendering import DeltaRenderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.sample import Status


@pytest.mark.filterwarnings("ignore:rollout state")
async def test_the_episodes_of_a_dead_worker_begin_afresh_after_a_restart(
    renderer: DeltaRenderer,
) -> None:
    tasks = {request.task.id: request.task for request in requests(12)}
    pool = make_pool("executor_worlds:Counting", workers=1)
    bridge = rollouts(renderer, pool.make)
    bridge.engine = slow_engine()
    buffer = DataBuffer([*tasks.values()], seed=1)
    try:
        async with bridge.managed(buffer, OverSampling(2, 2.0)) as manager:
            before = [await manager.collect()]
            (worker,) = pool.crew().queue.workers
            async with asyncio.timeout(60):
                while worker.playing:  # every suspended episode waits for its next turn
                    await asyncio.sleep(0.01)
            os.kill(int(worker.link.name.split()[1]), signal.SIGKILL)
            position = buffer.state_dict()
            state = json.loads(json.dumps(await manager.saved_state()))
            goes_on = await manager.collect()
            resumed = bridge.managed(again := DataBuffer([*tasks.values()], seed=1), manager.how)
            again.load_state_dict(position)
            resumed.load_state_dict(state, tasks)
            async with resumed:
                after = [await resumed.collect() for _ in range(3)]
    finally:
        pool.close()
    assert state["pending"]
    groups = [group for batch in [*before, *after] for group in batch.groups]
    assert len({(group.task.id, group.visit) for group in groups}) == len(groups) == 8
    episodes = [t for group in [*groups, *goes_on.groups] for t in group.trajectories]
    assert {episode.status for episode in episodes} == {Status.COMPLETED}
