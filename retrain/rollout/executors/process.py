"""Worker processes of this machine, over socket pairs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from retrain.errors import WorkerLost
from retrain.rollout.executors.frames import frame, read_frame

_LEAVE_SECONDS = 5.0
_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from retrain.rollout.executors.process_worker import main
main(int(sys.argv[1]))
"""
_STDERR = 2


class ProcessLauncher:
    """Starts worker processes: fresh interpreters that import from where this one does."""

    async def open(self) -> int:
        """One worker per CPU that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    async def launch(self) -> ProcessLink:
        """Start a process."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, str(theirs.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return ProcessLink(process, ours, reader, writer)

    def lacking(self) -> str:
        """Nothing is known to keep a process from starting."""
        return ""

    def close(self) -> None:
        """Nothing is held."""


class ProcessLink:
    """The connection to one worker process.

    The process leads a session of its own: Ctrl-C does not reach it, and ending it takes along what
    environments have started.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        connection: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._connection = connection
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(reader))

    @property
    def name(self) -> str:
        """The process."""
        return f"process {self._process.pid}"

    async def exchange(self, number: int, message: bytes) -> bytes:
        """Send a message and wait for its answer.

        Raises:
            WorkerLost: The process ended.
        """
        if self._ended.done() or self._writer.is_closing():
            raise WorkerLost(await self.ended())
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(frame(number, message))
            with suppress(ConnectionError):
                await self._writer.drain()
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def ended(self) -> str:
        """Wait for the end of the process."""
        return await asyncio.shield(self._ended)

    def dismiss(self) -> None:
        """Hang up: the process runs its exit handlers and ends."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def kill(self, *, patience: float = 0.0) -> None:
        """End the process and those that it has started."""
        self.dismiss()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to whoever waits for them, until the process ends."""
        end = "its connection was closed"
        try:
            while (got := await read_frame(reader)) is not None:
                number, answer = got
                waiting = self._waiting.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            end = await self._end()
        finally:
            self._writer.close()
            self._ended.set_result(end)
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(WorkerLost(end))

    async def _end(self) -> str:
        for _ in range(100):
            code = self._process.poll()
            if code is not None:
                return _exit(code)
            await asyncio.sleep(0.01)
        return "it closed its connection"


def _exit(code: int) -> str:
    if code >= 0:
        return f"it exited with status {code}"
    return f"it was killed by {signal.Signals(-code).name}"
