"""A worker process: serves one connection to the process that started it, and ends with it."""

from __future__ import annotations

import asyncio
import atexit
import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import NoReturn

from retrain.rollout.executors.frames import frame, read_frame
from retrain.rollout.executors.host import EnvironmentHost

LEAVE_SECONDS = 5.0
"""How long a worker may take to end by itself once nobody listens to it any more."""

_HUNG_UP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


def main(descriptor: int) -> None:
    """Serve until the connection ends, then take every process that was started here along.

    Args:
        descriptor: The connection's file descriptor, inherited.
    """
    connection = socket.socket(fileno=descriptor)
    atexit.register(_end_the_group)
    threading.Thread(target=_watch, args=(descriptor,), name="retrain-parent", daemon=True).start()
    asyncio.run(_serve(connection))


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    host = EnvironmentHost()
    answers: set[asyncio.Task[None]] = set()
    while (asked := await read_frame(reader)) is not None:
        answer = asyncio.create_task(_answer(host, writer, *asked))
        answers.add(answer)
        answer.add_done_callback(answers.discard)
    for answer in answers:
        answer.cancel()
    await host.close()


async def _answer(
    host: EnvironmentHost, writer: asyncio.StreamWriter, number: int, message: bytes
) -> None:
    answer = await host.serve(number, message)
    with suppress(ConnectionError):  # nobody listens any more
        writer.write(frame(number, answer))
        await writer.drain()


def _watch(descriptor: int) -> None:
    """End the process when the other side is gone, even if the event loop does not answer."""
    poll = select.poll()
    poll.register(descriptor, _HUNG_UP)
    poll.poll()
    time.sleep(LEAVE_SECONDS)
    _end_the_group()


def _end_the_group() -> NoReturn:
    """End this process and those that environments have started, which share its group."""
    os.killpg(0, signal.SIGKILL)
    raise SystemExit
