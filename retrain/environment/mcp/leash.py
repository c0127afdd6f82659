"""Runs an MCP server and ends it, and all that it has started, when the run's process is gone.

`python leash.py LIFELINE COMMAND ARGUMENTS…`. LIFELINE is the file descriptor of a pipe into which
nobody writes: it closes when the process that holds its other end does, however that one ends. The
server inherits standard input, output and error as they are. Runs on its own, without the rest of
this package: an interpreter that imports nothing is up in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

GRACE = 2.0
"""Seconds that a server may take to end after SIGTERM."""

_LOOK = 0.02
_PARENT_LOOK = 1.0
_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans below become children of this process."""


def main(arguments: list[str]) -> int:
    """Run a command until it ends or the lifeline closes.

    Args:
        arguments: The lifeline's file descriptor and the command.

    Returns:
        The command's exit status; 128 + N where signal N ended it.
    """
    lifeline, command = int(arguments[0]), arguments[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(AttributeError, OSError):  # elsewhere than on Linux, orphans stay orphans
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = subprocess.Popen(command, start_new_session=True, preexec_fn=_default_signals)
    _let_go_of_pipes()
    _wait(server, lifeline)
    if server.poll() is None:
        _end(server)
    _kill_group(server.pid)
    _kill_orphans()
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _let_go_of_pipes() -> None:
    """Leave standard input and output to the server, so that their other end sees it close them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def _wait(server: subprocess.Popen[bytes], lifeline: int) -> None:
    """Wait until the server ends, the lifeline closes or the parent is gone.

    The parent is looked for too, since a process that it forked may hold the lifeline open.
    """
    watched, seconds, parent = [lifeline], _LOOK, os.getppid()
    if hasattr(os, "pidfd_open"):
        watched, seconds = [lifeline, os.pidfd_open(server.pid)], _PARENT_LOOK
    while server.poll() is None and os.getppid() == parent:
        readable, _, _ = select.select(watched, [], [], seconds)
        if lifeline in readable:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(_LOOK)
    _kill_group(server.pid)
    server.wait()


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _kill_orphans() -> None:
    """Kill what the server has started in sessions of their own; their orphans come next."""
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    path = f"/proc/self/task/{os.getpid()}/children"
    try:
        with open(path, encoding="ascii") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
