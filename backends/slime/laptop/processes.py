"""Child processes that outlive neither this process nor the run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from backends.slime.laptop.leash import GRACE
from retrain.errors import BackendFailure

SETTLE = 10.0
"""Seconds that what a child leaves, such as a worker of its Ray, may take to end by itself."""
_KILL = 10.0
_POLL = 0.05


@contextmanager
def child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python module; on leaving, it is interrupted, and killed if that does not end it.

    It stands in a session of its own, so that Ctrl-C reaches this process alone, which then ends
    its children in order. What it started has ended too when this returns: Ray's workers, which
    have process groups of their own, end a moment after their Ray.

    Args:
        module: As for `python -m`.
        arguments: Its arguments.
        folder: Where it runs.
        stdout: Takes what it prints; `subprocess.PIPE` for reading it here.
        stderr: Takes what it logs.
        environment: Set besides this process's own variables.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "backends.slime.laptop.leash", module, *arguments],
        env={**os.environ, **(environment or {})},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def wait_for_left_over(variables: Mapping[str, str]) -> None:
    """Wait for what a run left behind that was killed: it ends by itself, and may write until then.

    Args:
        variables: What stands in the environment of that run's processes, and of no others.

    Raises:
        BackendFailure: Something of it does not end.
    """
    deadline = time.monotonic() + GRACE + SETTLE + _KILL
    while left := _having(variables):
        if time.monotonic() > deadline:
            raise BackendFailure(
                f"processes of this run that were started before are still running: "
                f"{', '.join(map(str, left))}; end them (kill -9) and resume again"
            )
        time.sleep(_POLL)


def _having(variables: Mapping[str, str]) -> list[int]:
    """The other processes of this user that have these variables."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            has = variables.items() <= process.environ().items()
            if has and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=GRACE + 5)  # closes the leash
    _end_session(process.pid)
    process.communicate()


def _end_session(leader: int) -> None:
    """Wait until nothing is left of a session; what does not end by itself is killed."""
    began = time.monotonic()
    while members := _members(leader):
        waited = time.monotonic() - began
        if waited > SETTLE + _KILL:
            return
        if waited > SETTLE:
            for member in members:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
        time.sleep(_POLL)


def _members(leader: int) -> list[psutil.Process]:
    """The running processes of a session."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if os.getsid(pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
