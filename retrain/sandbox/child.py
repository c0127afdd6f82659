"""What happens in the processes that become a program: they end in `execve`, or report why not.

The *keeper* is the worker's child. On the level `namespaces` it enters them and forks process 1,
which builds the file system; else the two are one. That one forks the program, waits for it and
reports how it ended. Where it dies, or the keeper, or the worker, the kernel ends what is left.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NoReturn

from retrain.sandbox import namespaces
from retrain.sandbox.limits import Level, Limits

NOBODY = 65534
"""The user that a program runs as where root can choose one."""

WORK = "/program"
"""The work folder on the level `namespaces`."""

ENTERED = b"+"
"""What a keeper says when it is in its namespaces, and waits for the users to be mapped."""

MAPPED = b"="
"""The worker's answer, when that is done."""

_FIRST_OTHER, _MOST_FILES = 3, 1 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """What the keeper needs.

    Attributes:
        command: The program and its arguments.
        files: Files of the work folder, by name.
        read: What the program may read, as real paths.
        limits: What it may use.
        tasks: How many processes and threads its user may have, others of the user included.
        level: How it is kept apart.
        work: The work folder.
        standard: File descriptors of its standard input, output and error.
        talk: A socket to the worker: see `ENTERED`, `MAPPED`, and then one JSON object a line, with
            `fault` where nothing could be run, else with `code`.
    """

    command: tuple[str, ...]
    files: Mapping[str, str]
    read: Sequence[str]
    limits: Limits
    tasks: int
    level: Level
    work: str
    standard: tuple[int, int, int]
    talk: int


def keep(launch: Launch) -> NoReturn:
    """Be the keeper of a program; never returns."""
    _guarded(launch, _keep)


def _guarded(launch: Launch, act: Callable[[Launch], None]) -> NoReturn:
    """Do something in a process of our own, report what it raises, and end the process."""
    try:
        act(launch)
    except Exception as error:  # noqa: BLE001 - told to the worker
        _report(launch, fault=f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _keep(launch: Launch) -> None:
    namespaces.die_with_parent(signal.SIGKILL)
    if launch.level is not Level.NAMESPACES:
        _attend(launch)
        return
    namespaces.unshare()
    os.write(launch.talk, ENTERED)
    if os.read(launch.talk, 1) != MAPPED:
        return
    first = os.fork()
    if first == 0:
        _guarded(launch, _be_first)
    os.waitpid(first, 0)


def _be_first(launch: Launch) -> None:
    """Be process 1 of a namespace: when it ends, every other process in it is ended."""
    namespaces.die_with_parent(signal.SIGKILL)
    if os.getuid() != namespaces.INSIDE:
        os.setgroups([])
    namespaces.allow_no_namespace()
    namespaces.enter_new_root(launch.read, launch.work, launch.limits.disk)
    _attend(launch)


def _attend(launch: Launch) -> None:
    """Start the program, and report how it ended."""
    namespaces.hide_memory()
    _write_files(launch)
    program = os.fork()
    if program == 0:
        _guarded(launch, _become)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program:
            _report(launch, code=os.waitstatus_to_exitcode(status))
            return


def _write_files(launch: Launch) -> None:
    """Put the program's files into its work folder; they belong to its user."""
    for name, text in launch.files.items():
        path = Path(launch.work, name)
        path.write_bytes(text.encode(errors="surrogatepass"))
        if (user := program_user(launch.level)) is not None:
            os.chown(path, user, user)


def program_user(level: Level) -> int | None:
    """Whom a program runs as, as the process that starts it sees it; None for the same user."""
    if level is Level.NAMESPACES and os.getuid() != namespaces.INSIDE:
        return namespaces.INSIDE
    return NOBODY if level is Level.USER else None


def _become(launch: Launch) -> None:
    """Become the program."""
    os.setsid()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for target, source in enumerate(launch.standard):
        os.dup2(source, target)
    os.closerange(_FIRST_OTHER, launch.talk)  # it closes by itself, at exec
    os.closerange(launch.talk + 1, _MOST_FILES)
    os.chdir(launch.work)
    _limit(launch.limits, launch.tasks)
    if (user := program_user(launch.level)) is not None:
        if launch.level is Level.USER:
            os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    namespaces.gain_nothing()
    if launch.level is not Level.NAMESPACES:
        namespaces.die_with_parent(signal.SIGKILL)
    os.execve(launch.command[0], launch.command, _environment(launch.work))


def _environment(work: str) -> dict[str, str]:
    return {
        "HOME": work,
        "TMPDIR": work,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def _limit(limits: Limits, tasks: int) -> None:
    cpu = ceil(limits.seconds)
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits.memory, limits.memory),
        (resource.RLIMIT_NPROC, tasks, tasks),
        (resource.RLIMIT_NOFILE, limits.files, limits.files),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ):
        resource.setrlimit(what, (soft, hard))


def _report(launch: Launch, **values: object) -> None:
    os.write(launch.talk, json.dumps(values).encode() + b"\n")
