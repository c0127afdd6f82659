"""Runs one program at a time, in a worker process of the pool, and leaves nothing of it behind."""

from __future__ import annotations

import os
import platform
import re
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, BinaryIO

from retrain.sandbox import namespaces
from retrain.sandbox.child import ENTERED, MAPPED, NOBODY, WORK, Launch, keep
from retrain.sandbox.limits import Finished, Level, Limits, Program, Stopped
from retrain.sandbox.processes import end_children, tasks_of
from retrain.sandbox.watching import Watch

_SAID = 4000
_ROOM = 4  # one too many has to be seen, and process 1 counts where it has the same user
_OWN_COUNT = (5, 14)  # from this Linux on, a user namespace counts its processes by itself


def warm_up() -> None:
    """Nothing: importing this module is what a worker's parent does once for all."""


def run(program: Mapping[str, Any], limits: Mapping[str, Any], level: str) -> dict[str, Any]:
    """Run a program.

    Args:
        program: The values of a `Program`.
        limits: The values of `Limits`.
        level: A `Level`.

    Returns:
        The values of a `Finished`.

    Raises:
        RuntimeError: It could not be started, or not be ended.
    """
    namespaces.adopt_orphans()
    finished = _run(Program(**program), Limits(**limits), Level(level))
    return asdict(finished)


def possible(read: list[str]) -> tuple[str, dict[str, str]]:
    """The best level of this machine, and why each better one is not possible.

    Args:
        read: Folders that programs have to be able to read.
    """
    namespaces.adopt_orphans()
    why: dict[str, str] = {}
    levels = [Level.NAMESPACES, *([Level.USER] if os.geteuid() == 0 else [])]
    imports = f"import sys, os; [os.listdir(path) for path in {read!r}]"
    program = Program(("-c", imports), read=tuple(read))
    for level in levels:
        try:
            finished = _run(program, Limits(), level)
        except (OSError, RuntimeError) as error:
            why[level] = str(error)
            continue
        if finished.code == 0:
            return level, why
        why[level] = finished.stderr.strip().rpartition("\n")[2] or f"exit code {finished.code}"
    return Level.LIMITS, why


def _run(program: Program, limits: Limits, level: Level) -> Finished:
    # from a namespace this process is not seen; and a hidden one cannot map the users of its child
    namespaces.hide_memory(level is not Level.NAMESPACES)
    with ExitStack() as open_ones:
        work = WORK if level is Level.NAMESPACES else open_ones.enter_context(_work_folder(level))
        stdin = open_ones.enter_context(_text_file(program.stdin))
        stdout, stdout_end = _pipe(open_ones)
        stderr, stderr_end = _pipe(open_ones)
        talk, talk_end = map(open_ones.enter_context, socket.socketpair())
        launch = Launch(
            command=_command(program),
            files=program.files,
            read=_readable(program),
            limits=limits,
            tasks=_tasks(limits, level),
            level=level,
            work=work,
            standard=(stdin, stdout_end.fileno(), stderr_end.fileno()),
            talk=talk_end.fileno(),
        )
        looked_at = None if level is Level.NAMESPACES else work
        watch = Watch(stdout.fileno(), stderr.fileno(), talk, limits, looked_at)
        began = time.monotonic()
        _start(launch, talk, (talk_end, stdout_end, stderr_end), watch)
        return _finished(watch, time.monotonic() - began)


def _start(
    launch: Launch, talk: socket.socket, theirs: Sequence[socket.socket | BinaryIO], watch: Watch
) -> None:
    """Run a program to its end."""
    deadline = time.monotonic() + launch.limits.seconds
    keeper = os.fork()
    if keeper == 0:
        keep(launch)
    try:
        for end in theirs:
            end.close()
        # where it cannot enter, what comes is the report of a fault, which is not for us to take
        if launch.level is Level.NAMESPACES and talk.recv(1, socket.MSG_PEEK) == ENTERED:
            talk.recv(1)
            namespaces.map_user(keeper, NOBODY)
            talk.send(MAPPED)
        watch.until_end(deadline)
    finally:
        end_children()
    watch.read_rest()


def _finished(watch: Watch, seconds: float) -> Finished:
    code = watch.outcome()
    stdout, stderr = (
        watch.written.get(descriptor, b"").decode(errors="replace")
        for descriptor in (watch.stdout, watch.stderr)
    )
    stopped = Stopped.SECONDS if code == -signal.SIGXCPU else watch.stopped
    return Finished(None if stopped else code, stopped, stdout, stderr[-_SAID:], seconds)


def _command(program: Program) -> tuple[str, ...]:
    """The interpreter with options that add neither folders nor settings from outside.

    `-s -P` and an environment of our own is what `-I` is, but for the seed of hashes.
    """
    if program.packages:
        return (sys.executable, "-s", "-P", "-B", *program.arguments)
    return (os.path.realpath(sys.executable), "-s", "-P", "-B", "-S", *program.arguments)


def _readable(program: Program) -> tuple[str, ...]:
    own = {sys.base_prefix, *([sys.prefix] if program.packages else [])}
    folders = {os.path.realpath(path) for path in (*own, *program.read)}
    return tuple(sorted(path for path in folders if not f"{path}/".startswith("/usr/")))


def _tasks(limits: Limits, level: Level) -> int:
    """The most tasks of the program's user, where the kernel counts all that the user has."""
    version = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    if level is Level.NAMESPACES and version >= _OWN_COUNT:
        return limits.processes + _ROOM
    return limits.processes + _ROOM + tasks_of(NOBODY if os.geteuid() == 0 else os.geteuid())


@contextmanager
def _work_folder(level: Level) -> Iterator[str]:
    outer = tempfile.mkdtemp(prefix="retrain-program-")
    try:
        folder = f"{outer}/program"
        os.mkdir(folder)
        if level is Level.USER:
            os.chmod(outer, 0o711)
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        _remove(outer)


def _remove(outer: str) -> None:
    """Remove a folder, however deep it is, and whatever in it is closed to us.

    Folders in it are moved to its top first: a path to a deep one may be too long to be used.
    """
    token, waiting, moved = secrets.token_hex(8), [outer], 0
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as found:
            entries = list(found)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            moved += 1
            waiting.append(f"{outer}/{token}-{moved}")
            os.chmod(entry.path, 0o700)
            os.rename(entry.path, waiting[-1])
        if here != outer:
            os.rmdir(here)
    os.rmdir(outer)


@contextmanager
def _text_file(text: str) -> Iterator[int]:
    """A file in memory that anybody may open again by `/dev/stdin`."""
    descriptor = os.memfd_create("stdin")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode(errors="surrogatepass"))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _pipe(open_ones: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    reader, writer = os.pipe()
    os.fchmod(writer, 0o666)
    return (
        open_ones.enter_context(open(reader, "rb", 0)),
        open_ones.enter_context(open(writer, "wb", 0)),
    )
