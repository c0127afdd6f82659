"""`ServerProcess`: an MCP server that this process starts, hears out within bounds, and ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from retrain.environment.mcp.flow import Flooded, Flow

_LEASH = str(Path(__file__).with_name("leash.py"))
_CHUNK = 2**16
_PAUSE = 0.001
_KEPT = 2000
_SHOWN = 300
_CLOSE_SECONDS = 1.0
_LAST_WORDS_SECONDS = 0.2
_LEASH_SECONDS = 5.0
"""Longer than the leash takes to end a server that does not want to."""


class ServerProcess:
    """A server on a leash: it ends with this process, however this one ends.

    Attributes:
        why: Why it is no more, or is about to end; None while all is well.
    """

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int, flow: Flow) -> None:
        self._process = process
        self._lifeline: int | None = lifeline
        self._flow = flow
        self._last_words = b""
        self._listening = asyncio.create_task(self._listen())
        self.why: str | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: str | None,
        flow: Flow,
    ) -> ServerProcess:
        """Start a server.

        Args:
            command: The program's path and its arguments.
            environment: All of its environment.
            cwd: Its working directory; None for this process's.
            flow: Counts what it says.
        """
        end, lifeline = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _LEASH, str(end), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=cwd,
                pass_fds=(end,),
                start_new_session=True,
                limit=_CHUNK,
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(end)
        return cls(process, lifeline, flow)

    @property
    def pid(self) -> int:
        """The leash's process id."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error, in one line."""
        return " ".join(self._last_words.decode(errors="replace").split())[-_SHOWN:]

    async def send(self, line: bytes) -> None:
        """Write a line to its standard input.

        Raises:
            ConnectionError: It does not read any more.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of its standard output, until it closes it or floods."""
        assert self._process.stdout is not None
        rest: list[bytes] = []
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                self._flow.heard(len(chunk))
                *ended, begun = chunk.split(b"\n")
                for line in ended:
                    yield b"".join((*rest, line))
                    rest.clear()
                rest.append(begun)
        except Flooded as flooded:
            self.kill(str(flooded))
        await self.note_end()

    async def note_end(self) -> None:
        """See why it ended, once it has closed its standard output or input."""
        if self.why is None and await self._gone(_CLOSE_SECONDS):
            self.why = f"it ended with {_status(self._process.returncode or 0)}"
            await asyncio.wait({self._listening}, timeout=_LAST_WORDS_SECONDS)
        self.why = self.why or "it closed its standard output"

    def kill(self, why: str) -> None:
        """End it and all that it has started, soon; the first reason is kept."""
        self.why = self.why or why
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    async def end(self) -> None:
        """Let it end, and make it where it does not."""
        assert self._process.stdin is not None
        self.why = self.why or "it was closed"
        self._process.stdin.close()
        await self._gone(_CLOSE_SECONDS if self._lifeline is not None else 0)
        self.kill(self.why)
        if not await self._gone(_LEASH_SECONDS):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._gone(_LEASH_SECONDS)
        self._listening.cancel()
        self._process._transport.close()  # type: ignore[attr-defined]

    async def _gone(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._process.returncode is None:
                    await asyncio.sleep(_PAUSE * 10)
        return self._process.returncode is not None

    async def _listen(self) -> None:
        """Keep the end of what it writes to standard error, at the pace of a reader."""
        assert self._process.stderr is not None
        try:
            while chunk := await self._process.stderr.read(_CHUNK):
                self._last_words = (self._last_words + chunk)[-_KEPT:]
                self._flow.heard(len(chunk))
                if len(chunk) == _CHUNK:
                    await asyncio.sleep(_PAUSE)
        except Flooded as flooded:
            self.kill(str(flooded))


def find_program(command: str, environment: Mapping[str, str], cwd: str | None) -> str:
    """The path of a program; `python` is this interpreter.

    Args:
        command: A name that is looked for along the server's PATH, or a path.
        environment: The server's environment.
        cwd: What a relative path is relative to; None for this process's working directory.

    Raises:
        ValueError: There is no such program or folder.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise ValueError(f"cwd: there is no folder {cwd!r} (seen from {Path.cwd()})")
    if command == "python":
        return sys.executable
    if os.sep in command:
        path = str(Path(cwd or ".", command).expanduser().absolute())
        found = path if os.access(path, os.X_OK) else None
    else:
        found = shutil.which(command, path=environment.get("PATH", os.defpath))
    if found is None:
        raise ValueError(f"command: there is no program {command!r}; install it or give its path")
    return found


def _status(code: int) -> str:
    """An exit status in words; the leash gives 128 + N for signal N."""
    if code <= 128:
        return f"status {code}"
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"status {code}"
