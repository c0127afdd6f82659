"""The processes behind a `WorkerPool`: a nursery that imports once, and the workers it forks."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from retrain.registry import load_object
from retrain.reward.hub.frames import Lost, read_frame, write_frame

MEMORY_BYTES = 4 * 2**30
"""The address space of one worker; beyond it an allocation fails."""

_SLACK = 0.25
_MOST_SAID = 1024


def main(descriptor: int, preload: Sequence[str]) -> NoReturn:
    """Fork a worker for each connection that comes, and take all along at the end.

    Args:
        descriptor: The control connection's file descriptor, inherited.
        preload: Functions to call first, `package.module:function`.
    """
    control = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes care of dead workers
    for target in preload:
        prepare: Any = load_object(target, "rule")
        prepare()
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            os.killpg(0, signal.SIGKILL)
        connection = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            control.close()
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with suppress(ValueError, OSError):  # not every system has such a limit
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        write_frame(connection, b"")
        with suppress(Lost):
            while True:
                _serve(connection)
    finally:
        os._exit(0)


def _serve(connection: socket.socket) -> None:
    target, seconds, args = json.loads(read_frame(connection))
    signal.setitimer(signal.ITIMER_REAL, seconds + _SLACK)
    answer = _answer(target, args)
    signal.setitimer(signal.ITIMER_REAL, 0)
    write_frame(connection, answer)


def _answer(target: str, args: Sequence[Any]) -> bytes:
    try:
        function: Any = load_object(target, "rule")
        return json.dumps({"value": function(*args)}).encode()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told to whoever asked
        text = str(error)[:_MOST_SAID]
        return json.dumps({"error": f"{type(error).__name__}: {text}"}).encode()
