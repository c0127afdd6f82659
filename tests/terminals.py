"""Programs on a terminal of their own."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shown:
    """What a program wrote.

    Attributes:
        code: Its exit status.
        terminal: What it wrote on the terminal.
        piped: What it wrote to the stream that is none.
    """

    code: int
    terminal: str
    piped: str


def run_on_terminal(
    command: Sequence[str],
    *,
    streams: Collection[str] = ("stdout",),
    folder: Path | None = None,
    environment: Mapping[str, str],
) -> Shown:
    """Run a program to its end.

    Args:
        command: Its words.
        streams: Which of stdout and stderr are the terminal; the other one is a pipe.
        folder: Where it runs.
        environment: Its environment.
    """
    ours, theirs = pty.openpty()
    where = {name: theirs if name in streams else subprocess.PIPE for name in ("stdout", "stderr")}
    with subprocess.Popen(command, cwd=folder, env=environment, **where) as process:
        os.close(theirs)
        shown = bytearray()
        with suppress(OSError):  # Linux says so when the other side has closed
            while part := os.read(ours, 65536):
                shown += part
        pipe = process.stdout or process.stderr
        piped = pipe.read() if pipe is not None else b""
    os.close(ours)
    return Shown(process.returncode, shown.decode(), piped.decode())
