from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pytest
from executed_episodes import as_bytes, local_bytes, make_pool, requests, rollouts
from executor_worlds import SteadyWorld

from bridges import RolloutBridge
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import ENVIRONMENTS
from retrain.errors import BackendFailure, ConfigError
from retrain.rendering import DeltaRenderer
from retrain.rollout.executors.base import Origin
from retrain.rollout.executors.making import make_origin
from retrain.rollout.request import GroupRequest
from retrain.runtime import EventLoopThread
from retrain.types import Task

WORLDS = [
    ("executor_worlds:SteadyWorld", {}),
    ("executor_worlds:SteadyWorld", {"fails": 0.2}),
    ("executor_worlds:BlockingWorld", {}),
    ("executor_worlds:Counters", {"system_prompt": "count"}),
    ("executor_worlds:Broken", {}),
    ("calculator", {"max_turns": 3}),
    ("trl_style_environments:Library", {}),
]


@pytest.mark.parametrize(("path", "config"), WORLDS)
async def test_episodes_are_those_of_the_local_executor(
    renderer: DeltaRenderer, path: str, config: Mapping[str, Any]
) -> None:
    pool = make_pool(path, config, workers=1 if path.startswith("trl_style") else 2)
    try:
        played = await rollouts(renderer, pool.make).collect(requests(6))
    finally:
        pool.close()
    assert as_bytes(played) == await local_bytes(renderer, path, config, requests(6))


async def test_a_failure_carries_the_worker_s_traceback(renderer: DeltaRenderer) -> None:
    pool = make_pool("executor_worlds:SteadyWorld", {"fails": 1.0})
    try:
        (group,) = await rollouts(renderer, pool.make).collect(requests(1))
    finally:
        pool.close()
    error = group.trajectories[0].error
    assert error is not None
    assert error.reason == "reset: LookupError: no such world"
    assert "In process " in error.traceback
    assert 'raise LookupError("no such world")' in error.traceback


async def test_no_worker_plays_more_episodes_than_it_has_room_for(
    renderer: DeltaRenderer,
) -> None:
    pool = make_pool("executor_worlds:SteadyWorld", {"pause": 0.01}, episodes_per_worker=3)
    most = 0
    stopped = asyncio.Event()

    async def watch() -> None:
        nonlocal most
        while not stopped.is_set():
            most = max([most, *(worker.playing for worker in pool.crew().queue.workers)])
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    try:
        played = await rollouts(renderer, pool.make, step_timeout=5.0).collect(requests(8))
    finally:
        stopped.set()
        await watching
        pool.close()
    assert most == 3
    assert all(t.error is None for group in played for t in group.trajectories)


async def test_tools_and_their_calls_cross(
    renderer: DeltaRenderer, encode: Callable[[str], list[int]]
) -> None:
    call = '<tool_call>\n{"name": "count", "arguments": {"text": "añb"}}\n</tool_call>'
    engine = ScriptedEngine([call, "three"], encode=encode)
    pool = make_pool("executor_worlds:Counters")
    try:
        bridge = rollouts(renderer, pool.make)
        (group,) = await RolloutBridge(
            bridge.environment, bridge.rewards, engine, bridge.settings
        ).collect(requests(1))
    finally:
        pool.close()
    episode = group.trajectories[0]
    assert "3" in renderer.text(episode.turns[0].env_ids)
    assert episode.turns[1].reward == 0.5
    assert "Count letters." in renderer.text(episode.segments[0].prompt_ids)


async def test_an_environment_that_workers_cannot_import_stops_the_run_with_their_traceback(
    renderer: DeltaRenderer,
) -> None:
    told: list[str] = []
    origin = Origin("no_such_module:World", {})
    pool = make_pool("executor_worlds:SteadyWorld", origin=origin, tell=told.append)
    try:
        with pytest.raises(ConfigError, match="no module named 'no_such_module'") as raised:
            await rollouts(renderer, pool.make).collect(requests(4))
    finally:
        pool.close()
    assert "in a worker (process " in str(raised.value)
    assert "Traceback" in str(raised.value)
    assert told == []


async def test_an_environment_that_takes_every_worker_down_stops_the_run(
    renderer: DeltaRenderer,
) -> None:
    told: list[str] = []
    pool = make_pool("executor_worlds:Doomed", workers=1, max_restarts=2, tell=told.append)
    try:
        with pytest.raises(BackendFailure, match="3 workers in a row ended") as raised:
            await rollouts(renderer, pool.make, max_restarts=9).collect(requests(1))
    finally:
        pool.close()
    assert "exited with status 3" in str(raised.value)
    assert len(told) == 2


async def test_a_task_that_json_cannot_hold_fails_with_the_key(renderer: DeltaRenderer) -> None:
    task = Task("t", "begin", metadata={"born": {"on": date(2024, 1, 2)}})
    pool = make_pool("executor_worlds:SteadyWorld", workers=1)
    try:
        (group,) = await rollouts(renderer, pool.make).collect([GroupRequest(0, task, 0)])
    finally:
        pool.close()
    error = group.trajectories[0].error
    assert error is not None
    assert error.reason.startswith("task.metadata['born']['on']: is a date, which cannot cross")


async def test_a_pool_plays_on_another_loop_once_the_first_has_ended(
    renderer: DeltaRenderer,
) -> None:
    pool = make_pool("executor_worlds:SteadyWorld", workers=1)

    def play() -> list[bytes]:
        with EventLoopThread() as loop:
            return as_bytes(loop.run(rollouts(renderer, pool.make).collect(requests(2))))

    try:
        first, second = await asyncio.to_thread(play), await asyncio.to_thread(play)
    finally:
        pool.close()
    assert first == second
    with pytest.raises(BackendFailure, match="the run has ended"):
        await rollouts(renderer, pool.make).collect(requests(1))


def test_a_class_of_the_script_that_runs_is_refused() -> None:
    class Here(SteadyWorld):
        pass

    Here.__module__ = "__main__"
    ENVIRONMENTS.register("of-the-script")(Here)
    with pytest.raises(ConfigError, match="defined in the script that runs"):
        make_origin("of-the-script", {})


def test_a_name_that_only_this_process_knows_goes_as_an_import_path() -> None:
    ENVIRONMENTS.register("steady")(SteadyWorld)
    assert make_origin("steady", {}).type == "executor_worlds:SteadyWorld"
    assert make_origin("calculator", {}).type == (
        "retrain.environment.calculator:CalculatorEnvironment"
    )
