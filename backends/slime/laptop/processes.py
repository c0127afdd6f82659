"""Child processes that outlive neither this process nor the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from backends.slime.laptop.leash import GRACE


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
    its children in order.

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


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=GRACE + 5)  # closes the leash
    with suppress(ProcessLookupError):  # whatever is left of its session
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
