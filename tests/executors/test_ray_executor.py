from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from executed_episodes import as_bytes, local_bytes, make_pool, requests, rollouts
from ray_cluster import RESOURCE, simulated_cluster

from retrain.errors import BackendFailure, ConfigError
from retrain.rendering import DeltaRenderer
from retrain.rollout.executors import crew as crew_module
from retrain.rollout.executors.base import Origin, placed
from retrain.rollout.executors.pool import WorkerPool
from retrain.rollout.executors.ray_actors import ActorOptions, RayLauncher
from retrain.rollout.request import GroupRequest
from retrain.types import Action, Group, Task

ray = pytest.importorskip("ray", reason="Ray is not installed")

STEADY = "executor_worlds:SteadyWorld"


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, list[Any]]]:
    with simulated_cluster(3) as made:
        yield made


def ray_pool(path: str, config: Any = None, **settings: Any) -> WorkerPool:
    options = ActorOptions(settings.pop("cpus", 0.0), settings.pop("resources", {RESOURCE: 1}))
    settings.setdefault("workers", None)
    return make_pool(path, config, launcher=RayLauncher(options), **settings)


async def until_ready(pool: WorkerPool, workers: int) -> None:
    while len(pool.crew().queue.workers) < workers:
        await asyncio.sleep(0.05)


async def test_episodes_over_nodes_are_those_of_the_local_executor(
    cluster: Any, renderer: DeltaRenderer
) -> None:
    config = {"fails": 0.1}
    pool = ray_pool(STEADY, config)
    try:
        await until_ready(pool, 3)
        played = await rollouts(renderer, pool.make).collect(requests(10))
    finally:
        pool.close()
    assert as_bytes(played) == await local_bytes(renderer, STEADY, config, requests(10))
    assert ray.is_initialized()
    for _ in range(100):
        if ray.available_resources().get(RESOURCE) == 3:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the pool was closed and its actors still hold their resources")


async def test_a_worker_that_does_not_answer_is_replaced(
    cluster: Any, renderer: DeltaRenderer
) -> None:
    path = "executor_worlds:Marked"
    pool = ray_pool(path, grace=0.3)
    try:
        bridge = rollouts(renderer, pool.make, step_timeout=1.0, max_restarts=0)
        (stuck,) = await bridge.collect(requests(1, "blocks"))
        played = await rollouts(renderer, pool.make).collect(requests(4))
    finally:
        pool.close()
    assert all(t.error is not None for t in stuck.trajectories)
    assert as_bytes(played) == await local_bytes(renderer, path, {}, requests(4))


async def test_an_environment_that_actors_cannot_import_stops_the_run(
    cluster: Any, renderer: DeltaRenderer
) -> None:
    pool = ray_pool(STEADY, origin=Origin("no_such_module:World", {}))
    try:
        with pytest.raises(ConfigError, match=r"in a worker \(actor .*no_such_module"):
            await rollouts(renderer, pool.make).collect(requests(2))
    finally:
        pool.close()


async def test_resources_that_no_node_has_stop_the_run_and_name_them(
    cluster: Any, renderer: DeltaRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_module, "READY_SECONDS", 2.0)
    pool = ray_pool(STEADY, resources={"displays": 2}, cpus=1.0)
    try:
        with pytest.raises(BackendFailure, match="asks for CPU 1, displays 2; the nodes have CPU"):
            await rollouts(renderer, pool.make).collect(requests(1))
    finally:
        pool.close()


def play_inside(path: str) -> tuple[int, bool]:
    """What slime's rollout manager does: it is an actor, and its environments are actors too."""

    async def play() -> int:
        pool = ray_pool(path, workers=1)
        environment = pool.make()
        try:
            async with placed(environment):
                await environment.reset(Task("t", "begin"), 1)
                results = [await environment.step(Action("text")) for _ in range(3)]
                await environment.close()
        finally:
            pool.close()
        return len(results)

    return asyncio.run(play()), ray.is_initialized()


async def test_a_process_that_ray_runs_uses_that_ray_and_leaves_it(cluster: Any) -> None:
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    remote = ray.remote(num_cpus=0, runtime_env=paths)(play_inside)
    assert await remote.remote(STEADY) == (3, True)


async def test_a_ray_of_our_own_is_started_and_ended() -> None:
    program = (
        "import asyncio, ray, sys; from test_ray_executor import own_ray;"
        "print(asyncio.run(own_ray()), ray.is_initialized())"
    )
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=240,
    )
    assert done.stdout.split()[-2:] == ["1.0", "False"], done.stderr


async def own_ray() -> float:
    """Play with two actors on a machine that may have fewer CPUs."""
    options = ActorOptions(cpus=1.0)
    pool = make_pool(STEADY, launcher=RayLauncher(options, workers=2), workers=2)
    try:
        await until_ready(pool, 2)
        return float(len({worker.proven for worker in pool.crew().queue.workers}))
    finally:
        pool.close()


async def deliver(renderer: DeltaRenderer, made: tuple[Any, list[Any]], episodes: int) -> str:
    """Play episodes, kill the first two nodes on the way, and check and describe the outcome."""
    cluster, nodes = made
    killing, told = nodes[:2], list[str]()
    delivered: Counter[tuple[str, int]] = Counter()
    asked, config = requests(episodes // 4), {"pause": 0.02}
    pool = ray_pool(STEADY, config, tell=told.append)
    bridge = rollouts(renderer, pool.make)

    async def one(request: GroupRequest) -> Group:
        (group,) = await bridge.collect([request])
        delivered.update((group.task.id, t.seed.sample_index) for t in group.trajectories)
        if killing and delivered.total() >= episodes / (1 + len(killing)):
            await asyncio.to_thread(cluster.remove_node, killing.pop(), False)
        return group

    try:
        await until_ready(pool, len(nodes))
        played = list(await asyncio.gather(*map(one, asked)))
        left = len(pool.crew().queue.workers)
    finally:
        pool.close()
    same = as_bytes(played) == await local_bytes(renderer, STEADY, config, asked)
    assert same
    assert len(delivered) == delivered.total() == episodes
    assert left == len(nodes) - 2
    assert sum("a worker is replaced" in message for message in told) >= 2
    return (
        f"{delivered.total():,} episodes delivered over {len(nodes)} nodes, {len(delivered):,} of "
        f"them different; {len(nodes) - left} nodes killed on the way; bytes as local: {same}"
    )


async def test_every_episode_is_delivered_once_though_two_nodes_are_killed(
    cluster: tuple[Any, list[Any]], renderer: DeltaRenderer
) -> None:
    print(await deliver(renderer, cluster, 300))


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_ten_thousand_episodes_over_four_nodes(renderer: DeltaRenderer) -> None:
    with simulated_cluster(4) as made:
        print(await deliver(renderer, made, 10_000))
