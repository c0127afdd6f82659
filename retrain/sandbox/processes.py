"""Finds the descendants of a process, and ends them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGESIZE")
_PARENT, _RESIDENT = 1, 21  # fields of /proc/PID/stat, counted from the state
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment.

    Attributes:
        pid: Its id.
        parent: Its parent's id.
        resident: Bytes of memory that are in use.
    """

    pid: int
    parent: int
    resident: int


def descendants(pid: int) -> list[Process]:
    """Every process that descends from one, itself left out; none where there is no /proc."""
    children: dict[int, list[Process]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(pid, ()))
    for process in found:  # it grows
        found += children.get(process.pid, ())
    return found


def end_children() -> None:
    """End every descendant of this process, which must be one that adopts orphans, and reap it.

    Raises:
        TimeoutError: One cannot be ended.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = descendants(os.getpid())
        for stop in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process forks no more
            for process in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, stop)
        if not _reap():
            return
        if time.monotonic() > deadline:
            raise TimeoutError("a process of the program cannot be ended")
        time.sleep(0.001)


def _reap() -> bool:
    """Take the dead children away; whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


def _processes() -> list[Process]:
    found = []
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError):
                    found.append(_process(int(name)))
    return found


def _process(pid: int) -> Process:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    return Process(pid, int(fields[_PARENT]), int(fields[_RESIDENT]) * _PAGE)


def tasks_of(user: int) -> int:
    """How many processes and threads a user has now."""
    count = 0
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError):
                    if os.stat(f"/proc/{name}").st_uid == user:
                        count += len(os.listdir(f"/proc/{name}/task"))
    return count
