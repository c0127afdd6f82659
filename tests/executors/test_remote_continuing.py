"""Episodes in workers that are suspended between iterations, and that go on after a restart."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import executor_worlds
import pytest
from executed_episodes import make_pool, requests, rollouts
from test_saved_after_death import holding_engine

from bridges import EnvironmentBridge
from bridges.continuing import record_episode, resume
from bridges.episode import Episode
from bridges.records import EpisodeRecord
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Group, Trajectory


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


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("world", ["Counting", "Repeatable"])
async def test_half_played_groups_go_on_after_a_restart_on_any_executor(
    renderer: DeltaRenderer, world: str, executor: str
) -> None:
    path, asked = f"executor_worlds:{world}", requests(12)
    tasks = {request.task.id: request.task for request in asked}
    held = {request.task.id for request in DataBuffer([*tasks.values()], seed=1).draw(4)[2:]}
    whole = rollouts(renderer, make_environment_factory(path))
    whole.engine = slow_engine()
    expected = {g.task.id: replies(g) for g in await whole.collect(asked)}

    async def play(batches: int, state: Any = None, position: Any = None) -> Any:
        """Some batches in a process of their own, as far as the environments are concerned."""
        pool = make_pool(path, workers=2)
        bridge = rollouts(renderer, pool.make if executor == "process" else pool.here)
        bridge.engine = slow_engine() if state else holding_engine(held, asyncio.Event())
        buffer = DataBuffer([*tasks.values()], seed=1)
        try:
            async with bridge.managed(buffer, OverSampling(2, 2.0)) as manager:
                if state is not None:
                    buffer.load_state_dict(position)
                    manager.load_state_dict(state, tasks)
                played = [await manager.collect() for _ in range(batches)]
                return played, json.loads(json.dumps(await manager.saved_state())), buffer
        finally:
            pool.close()

    before, state, buffer = await play(1)
    after, *_ = await play(4, state, json.loads(json.dumps(buffer.state_dict())))
    groups = [group for batch in [*before, *after] for group in batch.groups]
    assert sum(batch.tally.continued for batch in after) > 0
    assert len({(group.task.id, group.visit) for group in groups}) == len(groups) == 10
    assert {g.task.id: replies(g) for g in groups if g.visit == 0}.items() <= expected.items()


def replies(group: Group) -> list[list[tuple[tuple[int, ...], float]]]:
    """What the world answered to each turn of each episode."""
    return [[(turn.env_ids, turn.reward) for turn in t.turns] for t in group.trajectories]


@pytest.mark.parametrize("world", ["Counting", "Repeatable"])
async def test_an_episode_goes_on_in_another_worker_after_a_restart(
    renderer: DeltaRenderer, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_worlds.Counting, "__init__", _made_beside_the_trainer)
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


def _made_beside_the_trainer(self: Any) -> None:
    raise AssertionError("an environment of the executor was made in the trainer's process")
