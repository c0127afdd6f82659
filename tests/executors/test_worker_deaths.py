from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from executed_episodes import as_bytes, local_bytes, make_pool, requests, rollouts

from retrain.environment.base import Environment
from retrain.errors import Boundary
from retrain.rendering import DeltaRenderer
from retrain.rollout.executors import crew as crew_module
from retrain.rollout.executors.pool import WorkerPool
from retrain.rollout.executors.process import ProcessLink
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.types import Group, Task

STEADY, MARKED = "executor_worlds:SteadyWorld", "executor_worlds:Marked"


@asynccontextmanager
async def killing(pool: WorkerPool, *, most: int, seed: int = 5) -> AsyncIterator[list[int]]:
    """SIGKILL workers at random moments while the context lasts, `most` of them."""
    dice = random.Random(seed)
    killed: list[int] = []

    async def kill() -> None:
        while len(killed) < most:
            await asyncio.sleep(dice.random())
            if workers := pool.crew().queue.workers:
                pid = int(dice.choice(workers).link.name.removeprefix("process "))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    task = asyncio.create_task(kill())
    try:
        yield killed
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("groups", "most"),
    [(50, 6), pytest.param(250, 100, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])],
)
async def test_killed_workers_change_no_byte(
    renderer: DeltaRenderer, groups: int, most: int
) -> None:
    config = {"pause": 0.05, "fails": 0.02}
    pool = make_pool(STEADY, config, episodes_per_worker=8, max_restarts=50)
    resets: list[Environment] = []

    def make() -> Environment:
        resets.append(environment := pool.make())
        return environment

    try:
        async with killing(pool, most=most) as killed:
            played = await rollouts(renderer, make, max_restarts=50).collect(requests(groups))
    finally:
        pool.close()
    episodes = [t for group in played for t in group.trajectories]
    print(
        f"{len(episodes):,} episodes, {len(killed)} workers killed, "
        f"{len(resets) - len(episodes)} episodes begun again"
    )
    assert as_bytes(played) == await local_bytes(renderer, STEADY, config, requests(groups))
    assert len(set(killed)) > 1
    assert len(resets) > len(episodes)


async def play_beside(
    renderer: DeltaRenderer, make: Callable[[], Environment], word: str, **limits: float
) -> tuple[Group, list[Group]]:
    """One group whose task holds `word`, among others that do nothing special."""
    special = GroupRequest(1000, Task("special", f"{word} now"), 0)
    first, *others = await rollouts(renderer, make, **limits).collect([special, *requests(6)])
    return first, others


@pytest.mark.parametrize(
    ("word", "end"), [("dies", "killed by SIGKILL"), ("exits", "exited with status 7")]
)
async def test_an_episode_that_always_takes_its_worker_down_fails_and_the_others_do_not(
    renderer: DeltaRenderer, word: str, end: str
) -> None:
    pool = make_pool(MARKED, workers=1, max_restarts=20)
    try:
        special, others = await play_beside(renderer, pool.make, word, max_restarts=2)
    finally:
        pool.close()
    for episode in special.trajectories:
        assert episode.status is Status.FAILED
        assert episode.error is not None
        assert episode.error.boundary is Boundary.ENVIRONMENT
        assert end in episode.error.reason
    assert as_bytes(others) == await local_bytes(renderer, MARKED, {}, requests(6))


@pytest.mark.parametrize("word", ["holds", "blocks"])
async def test_a_worker_that_does_not_answer_is_ended_after_the_step_s_timeout(
    renderer: DeltaRenderer, word: str
) -> None:
    told: list[str] = []
    pool = make_pool(MARKED, grace=0.3, max_restarts=20, tell=told.append)
    try:
        special, others = await play_beside(
            renderer, pool.make, word, step_timeout=1.0, max_restarts=2
        )
    finally:
        pool.close()
    reasons = {t.error.reason for t in special.trajectories if t.error is not None}
    assert any("since it did not answer for 0.3 s" in reason for reason in reasons)
    assert all(t.status is Status.FAILED for t in special.trajectories)
    assert as_bytes(others) == await local_bytes(renderer, MARKED, {}, requests(6))
    assert told


async def test_a_call_that_hangs_in_its_own_thread_fails_alone_and_its_worker_is_replaced(
    renderer: DeltaRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_module, "LINGER_SECONDS", 0.2)
    told: list[str] = []
    path = "executor_worlds:Sleeper"
    pool = make_pool(path, workers=1, episodes_per_worker=40, tell=told.append)
    try:
        special, others = await play_beside(renderer, pool.make, "hangs", step_timeout=1.0)
        await asyncio.sleep(0.5)
    finally:
        pool.close()
    assert {t.error.reason for t in special.trajectories if t.error is not None} == {
        "step: no answer within 1 s"
    }
    assert as_bytes(others) == await local_bytes(renderer, path, {}, requests(6))
    assert any("a call that was broken off still ran in it" in message for message in told)


async def test_a_task_that_is_cancelled_gives_its_seat_back(renderer: DeltaRenderer) -> None:
    pool = make_pool(STEADY, {"pause": 30.0}, workers=1, episodes_per_worker=2)
    try:
        slow = asyncio.create_task(rollouts(renderer, pool.make).collect(requests(3)))
        while not (workers := pool.crew().queue.workers) or workers[0].playing < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await asyncio.sleep(0.2)
        assert (workers[0].playing, workers[0].seated) == (0, 0)
        assert workers[0].lost is None
    finally:
        pool.close()


async def test_a_worker_that_ended_leaves_no_connection_open() -> None:
    pool = make_pool(STEADY, workers=1)
    try:
        seat = await pool.crew().seat(alone=False)
        link = seat.worker.link
        assert isinstance(link, ProcessLink)
        os.kill(int(link.name.removeprefix("process ")), signal.SIGKILL)
        await link.ended()
        await asyncio.sleep(0)
        assert link._connection.fileno() == -1
    finally:
        pool.close()
