"""What is left of workers when the process that started them ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = """
import asyncio, sys, time

from executed_episodes import make_pool
from retrain.rollout.executors.base import placed
from retrain.runtime import EventLoopThread
from retrain.types import Action, Task


async def play(pool, how):
    environment = pool.make()
    async with placed(environment):
        try:
            await environment.reset(Task("t", "begin"), 1)
            result = await environment.step(Action("hello"))
            print(result.info["pids"], flush=True)
            if how == "blocks":
                await environment.step(Action("block"))
            await asyncio.sleep(1000 if how == "forever" else 0)
        finally:
            await environment.close()


pool = make_pool("executor_worlds:Spawner", workers=1)
with EventLoopThread() as loop:
    loop.run(play(pool, sys.argv[1]))
if sys.argv[1] == "close":
    pool.close()
    print("closed", flush=True)
    time.sleep(1000)
"""


@contextmanager
def playing(how: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A program whose worker is playing, and the pids of the worker and of the worker's child."""
    paths = os.pathsep.join([str(TESTS), str(TESTS / "executors"), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how],
        stdout=subprocess.PIPE,
        env={**os.environ, **variables, "PYTHONPATH": paths},
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, [int(pid) for pid in process.stdout.readline().split()]
    finally:
        process.kill()
        process.wait()


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pids: list[int], *, within: float) -> bool:
    until = time.monotonic() + within
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_nothing_is_left_once_the_pool_is_closed() -> None:
    with playing("close") as (process, pids):
        assert len(pids) == 2
        assert process.stdout is not None
        assert process.stdout.readline() == "closed\n"
        assert gone(pids, within=1)


def test_nothing_is_left_when_the_program_ends_without_closing_the_pool() -> None:
    with playing("end") as (process, pids):
        assert process.wait(60) == 0
        assert gone(pids, within=20)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal_and_the_environment_is_closed(
    sent: signal.Signals, tmp_path: Path
) -> None:
    mark = tmp_path / "closed"
    with playing("forever", CLOSED_MARK=str(mark)) as (process, pids):
        assert all(map(alive, pids))
        process.send_signal(sent)
        process.wait(60)
        assert gone(pids, within=20)
    assert mark.exists()


def test_a_worker_whose_loop_is_blocked_ends_with_the_program() -> None:
    with playing("blocks") as (process, pids):
        process.kill()
        process.wait()
        assert gone(pids, within=20)
