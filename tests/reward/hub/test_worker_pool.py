from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from retrain.errors import RewardFailure
from retrain.reward.hub.pool import WorkerPool


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(2)
    yield made
    made.close()


def processes_of(group: int) -> list[int]:
    """The live processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def gone(group: int) -> bool:
    end = time.monotonic() + 10
    while processes_of(group) and time.monotonic() < end:
        time.sleep(0.02)
    return not processes_of(group)


def test_a_call_answers_with_what_the_function_returns(pool: WorkerPool) -> None:
    assert pool.call("math:gcd", 12, 18) == 6


def test_what_a_function_raises_is_a_failure_with_its_type_and_message(pool: WorkerPool) -> None:
    with pytest.raises(RewardFailure, match=r"ValueError: .*invalid literal"):
        pool.call("builtins:int", "x")


@pytest.mark.parametrize(
    ("target", "args", "message"),
    [
        ("time:sleep", [60], "no answer within 0.3 s"),
        ("builtins:eval", ["9**9**9"], "no answer within 0.3 s"),
        ("os:abort", [], "the process ended"),
        ("builtins:eval", ["'x' * 10**12"], "MemoryError"),
        ("sys:exit", [3], "SystemExit"),
    ],
)
def test_what_hangs_crashes_or_grows_fails_and_the_next_call_works(
    pool: WorkerPool, target: str, args: list[object], message: str
) -> None:
    with pytest.raises(RewardFailure, match=message):
        pool.call(target, *args, seconds=0.3)
    assert pool.call("math:gcd", 4, 6) == 2


def test_a_worker_lives_on_after_a_call_that_raised(pool: WorkerPool) -> None:
    first = pool.call("os:getpid")
    with pytest.raises(RewardFailure):
        pool.call("builtins:int", "x")
    assert pool.call("os:getpid") == first


def test_calls_of_many_threads_run_in_as_many_processes_as_the_pool_has(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(16) as threads:
        pids = set(threads.map(lambda _: pool.call("os:getpid"), range(200)))
    assert len(pids) <= 2
    assert os.getpid() not in pids


def test_too_much_to_send_is_refused_before_a_process_sees_it(pool: WorkerPool) -> None:
    with pytest.raises(RewardFailure, match="bytes to score; at most"):
        pool.call("builtins:len", "x" * (9 * 2**20))
    assert pool.pid is None


def test_closing_ends_every_process_also_one_that_hangs(pool: WorkerPool) -> None:
    pool.call("math:gcd", 1, 1)
    group = pool.pid
    assert group is not None
    failed: list[RewardFailure] = []

    def hang() -> None:
        try:
            pool.call("time:sleep", 60, seconds=60)
        except RewardFailure as failure:
            failed.append(failure)

    thread = threading.Thread(target=hang)
    thread.start()
    time.sleep(0.2)
    pool.close()
    thread.join(10)
    assert len(failed) == 1
    assert gone(group)
    with pytest.raises(RewardFailure, match="closed"):
        pool.call("math:gcd", 1, 1)


def test_a_nursery_that_somebody_killed_is_replaced(pool: WorkerPool) -> None:
    pool.call("math:gcd", 1, 1)
    assert pool.pid is not None
    os.killpg(pool.pid, signal.SIGKILL)
    with pytest.raises(RewardFailure, match="the process ended"):
        pool.call("math:gcd", 1, 1)
    assert pool.call("math:gcd", 4, 2) == 2


_KILLED = """
import os, signal
from retrain.reward.hub.pool import WorkerPool
pool = WorkerPool(1)
pool.call("math:gcd", 1, 1)
print(pool.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_the_one_that_started_them_however_it_ends() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))
