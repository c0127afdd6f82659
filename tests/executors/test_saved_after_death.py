"""A state is saved although the worker of a suspended episode has died."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Collection
from typing import Any

import pytest
from executed_episodes import make_pool, requests, rollouts

from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.rendering import DeltaRenderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.sample import Status


def holding_engine(held: Collection[str], released: asyncio.Event) -> ScriptedEngine:
    """Writes no second turn of the held tasks until they are released, however fast the rest is."""

    async def write(ids: Any, params: SamplingParams, session: str, seed: int) -> list[int]:
        begun = sum(call.session_id == session for call in engine.calls) > 1
        if begun and any(session.endswith(f"-{task}") for task in held):
            await released.wait()
        return [*(1000 + seed % 7 + n for n in range(2 + seed % 5)), min(params.stop_token_ids)]

    engine = ScriptedEngine(write)
    return engine


@pytest.mark.filterwarnings("ignore:rollout state")
async def test_the_episodes_of_a_dead_worker_begin_afresh_after_a_restart(
    renderer: DeltaRenderer,
) -> None:
    tasks = {request.task.id: request.task for request in requests(12)}
    pool = make_pool("executor_worlds:Counting", workers=1)
    bridge = rollouts(renderer, pool.make)
    buffer = DataBuffer([*tasks.values()], seed=1)
    held = {request.task.id for request in DataBuffer([*tasks.values()], seed=1).draw(4)[2:]}
    released = asyncio.Event()
    bridge.engine = holding_engine(held, released)
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
            released.set()
            goes_on = await manager.collect()
            resumed = bridge.managed(again := DataBuffer([*tasks.values()], seed=1), manager.how)
            again.load_state_dict(position)
            resumed.load_state_dict(state, tasks)
            async with resumed:
                after = [await resumed.collect() for _ in range(3)]
    finally:
        pool.close()
    assert {row["task"] for row in state["pending"]} == held
    groups = [group for batch in [*before, *after] for group in batch.groups]
    assert len({(group.task.id, group.visit) for group in groups}) == len(groups) == 8
    episodes = [t for group in [*groups, *goes_on.groups] for t in group.trajectories]
    assert {episode.status for episode in episodes} == {Status.COMPLETED}
