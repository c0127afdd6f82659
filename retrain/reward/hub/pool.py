"""Processes for rules that may hang, grow or crash: every call ends within its time.

A pool is one *nursery*, a process that imports what the rules need and nothing else, and the
workers that it forks, one call at a time each. A worker that is late is killed by its own timer, so
also where the caller is gone; the next call gets a new one within milliseconds. When the caller
closes the pool or dies, the nursery takes its workers along.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from retrain.errors import RewardFailure
from retrain.reward.hub.frames import Lost, read_frame, write_frame

SECONDS = 5.0
"""How long one call may take unless its caller says otherwise."""

MOST_BYTES = 8 * 2**20
"""The longest question that a worker is sent."""

_GRACE = 2.0
_BIRTH_SECONDS = 120.0
_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from retrain.reward.hub.nursery import main; "
    "main(int(sys.argv[1]), json.loads(sys.argv[3]))"
)
_STDERR = 2


class WorkerPool:
    """Calls functions in processes; safe to use from any thread.

    Args:
        size: Most workers at once; None for one per CPU that this process may use.
        preload: Functions `package.module:function` that the nursery calls once, before any worker.
    """

    def __init__(self, size: int | None = None, preload: Sequence[str] = ()) -> None:
        self.size = size or available_cpus()
        self._preload = tuple(preload)
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._nursery: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._slots: queue.LifoQueue[socket.socket | None] = queue.LifoQueue()
        for _ in range(self.size):
            self._slots.put(None)

    def call(self, target: str, *args: Any, seconds: float = SECONDS) -> Any:
        """Call a function in a worker and wait for its answer.

        Args:
            target: `package.module:function`.
            *args: Its arguments; JSON values.
            seconds: How long the call may take, once a worker is free.

        Returns:
            What it returns; a JSON value.

        Raises:
            RewardFailure: It raised, was late, used too much memory or took its process down; the
                arguments are too long; or the pool is closed.
        """
        question = json.dumps([target, seconds, args]).encode()
        if len(question) > MOST_BYTES:
            raise RewardFailure(
                f"{len(question):,} bytes to score; at most {MOST_BYTES:,} are sent"
            )
        worker = self._slots.get()
        try:
            worker = worker or self._worker()
            answer = _ask(worker, question, seconds)
        except BaseException:
            if worker is not None:
                worker.close()
            self._slots.put(None)
            raise
        self._keep(worker)
        return _value(answer)

    @property
    def pid(self) -> int | None:
        """The nursery's process id; None where none runs."""
        return None if self._nursery is None else self._nursery.pid

    def close(self) -> None:
        """End the pool's processes; a call that waits for an answer fails. Safe to repeat."""
        with self._lock:
            self._closed = True
            control, self._control = self._control, None
            nursery, self._nursery = self._nursery, None
        self._leave_workers()
        if control is not None:
            control.close()
        if nursery is not None:
            os.killpg(nursery.pid, signal.SIGKILL)  # its workers share its group
            nursery.wait()

    def _leave_workers(self) -> None:
        idle = []
        with suppress(queue.Empty):
            while True:
                idle.append(self._slots.get_nowait())
        for worker in idle:
            self._keep(worker)

    def _keep(self, worker: socket.socket | None) -> None:
        """Put a worker where the next call finds it; none is kept by a closed pool."""
        with self._lock:
            if self._closed and worker is not None:
                worker.close()
                worker = None
            self._slots.put(worker)

    def _worker(self) -> socket.socket:
        """A new worker; where the nursery was killed just now, one of another nursery."""
        try:
            return self._born()
        except (Lost, TimeoutError):
            with self._lock:
                self._control = None
        try:
            return self._born()
        except (Lost, TimeoutError) as error:
            raise RewardFailure("a process for rewards did not start; see above") from error

    def _born(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._closed:
                ours.close()
                raise RewardFailure("the reward's processes have been closed")
            try:
                socket.send_fds(self._nursing(), [b"+"], [theirs.fileno()])
            except OSError:  # somebody killed the nursery
                self._control = None
                socket.send_fds(self._nursing(), [b"+"], [theirs.fileno()])
        try:
            read_frame(ours, _BIRTH_SECONDS)
        except (Lost, TimeoutError):
            ours.close()
            raise
        return ours

    def _nursing(self) -> socket.socket:
        if self._control is None:
            if self._nursery is not None:
                self._nursery.wait()
            ours, theirs = socket.socketpair()
            with theirs:
                self._nursery = subprocess.Popen(
                    [
                        *(sys.executable, "-c", _BEGIN, str(theirs.fileno())),
                        *(json.dumps(sys.path), json.dumps(self._preload)),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=_STDERR,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._control = ours
        return self._control


def available_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def math_pool() -> WorkerPool:
    """The pool of this process whose workers have math-verify imported and its caches filled."""
    return _shared(("retrain.reward.hub.math_worker:warm_up",))


def text_pool() -> WorkerPool:
    """The pool of this process for rules that need the standard library alone."""
    return _shared(())


def function_pool() -> WorkerPool:
    """The pool of this process for reward functions of the user's (`run_in: process`)."""
    return _shared(("retrain.reward.process_worker:warm_up",))


def code_pool() -> WorkerPool:
    """The pool of this process whose workers run programs, each in a process of its own."""
    return _shared(("retrain.sandbox.worker:warm_up",))


def close_pools() -> None:
    """End the processes of this process's pools; the next call starts new ones."""
    with _LOCK:
        pools = list(_POOLS.values())
        _POOLS.clear()
    for pool in pools:
        pool.close()


def _shared(preload: tuple[str, ...]) -> WorkerPool:
    with _LOCK:
        if preload not in _POOLS:
            _POOLS[preload] = WorkerPool(preload=preload)
        return _POOLS[preload]


def _ask(worker: socket.socket, question: bytes, seconds: float) -> Any:
    began = time.monotonic()
    try:
        write_frame(worker, question, seconds + _GRACE)
        return json.loads(read_frame(worker, seconds + _GRACE))
    except TimeoutError:
        late = True
    except Lost:
        late = time.monotonic() - began >= seconds
    if late:
        reason = f"no answer within {seconds:g} s: the process was ended"
        raise RewardFailure(reason) from TimeoutError(reason)
    raise RewardFailure("the process ended: out of memory, or a crash of a library")


def _value(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        raise RewardFailure(answer["error"])
    return answer["value"]


_LOCK = threading.Lock()
_POOLS: dict[tuple[str, ...], WorkerPool] = {}

atexit.register(close_pools)
os.register_at_fork(after_in_child=_POOLS.clear)
