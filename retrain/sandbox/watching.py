"""Follows a program: takes what it writes, and says when it has used too much."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from retrain.sandbox.limits import MEBIBYTE, Limits, Stopped
from retrain.sandbox.processes import descendants

_POLL = 0.05
_CHUNK = 1 << 16
_BLOCK = 512
_MOST_ENTRIES, _DEEPEST = 10_000, 100
_OWN_PROCESSES = 2  # the keeper, and process 1 of a namespace
_OWN_MEMORY = 64 * MEBIBYTE


@dataclass(slots=True)
class Watch:
    """What is known of a program that runs.

    Attributes:
        stdout: Where its standard output is read.
        stderr: Where its standard error is read.
        talk: Where its keeper reports.
        limits: What it may use.
        work: Its work folder, where it counts against `limits.disk` only by being looked at.
        written: What it wrote so far, by file descriptor.
        reported: What its keeper said.
        stopped: The limit that it went over.
    """

    stdout: int
    stderr: int
    talk: socket.socket
    limits: Limits
    work: str | None
    written: dict[int, bytearray] = field(default_factory=dict)
    reported: bytearray = field(default_factory=bytearray)
    stopped: Stopped | None = None
    _ended: bool = False

    def until_end(self, deadline: float) -> None:
        """Return as soon as the program has ended or used too much.

        Args:
            deadline: When it is late, by the monotonic clock.
        """
        look = time.monotonic() + _POLL
        with self._selector() as selector:
            while not self._ended and self.stopped is None:
                now = time.monotonic()
                if now >= deadline:
                    self.stopped = Stopped.SECONDS
                    return
                if now >= look:
                    self._look()
                    look = time.monotonic() + _POLL
                for key, _ in selector.select(max(0.0, min(deadline, look) - now)):
                    if not self._take(key.fd):
                        selector.unregister(key.fd)

    def read_rest(self) -> None:
        """Read what is left, once nobody can write any more."""
        for descriptor in (self.talk.fileno(), self.stdout, self.stderr):
            while self._take(descriptor):
                pass

    def outcome(self) -> int | None:
        """The program's exit code; None where a limit ended it.

        Raises:
            RuntimeError: It could not be started.
        """
        lines = self.reported.decode().splitlines()
        for values in map(json.loads, lines):
            if "fault" in values:
                raise RuntimeError(f"a program could not be started: {values['fault']}")
        if self.stopped is not None:
            return None
        if not lines:
            raise RuntimeError("the process that kept the program was killed")
        code: int = json.loads(lines[-1])["code"]
        return code

    def _selector(self) -> selectors.BaseSelector:
        selector = selectors.DefaultSelector()
        for descriptor in (self.talk.fileno(), self.stdout, self.stderr):
            selector.register(descriptor, selectors.EVENT_READ)
        return selector

    def _take(self, descriptor: int) -> bool:
        """Read once; whether there may be more."""
        part = os.read(descriptor, _CHUNK)
        if descriptor == self.talk.fileno():
            self.reported += part
            self._ended = True
            return bool(part)
        kept = self.written.setdefault(descriptor, bytearray())
        kept += part
        if len(kept) > self.limits.output:
            self.stopped = self.stopped or Stopped.OUTPUT
            del kept[self.limits.output :]
        return bool(part)

    def _look(self) -> None:
        found = descendants(os.getpid())
        if sum(process.resident for process in found) > self.limits.memory + _OWN_MEMORY:
            self.stopped = Stopped.MEMORY
        elif len(found) > self.limits.processes + _OWN_PROCESSES:
            self.stopped = Stopped.PROCESSES
        elif self.work is not None and _holds_more(self.work, self.limits.disk):
            self.stopped = Stopped.DISK


def _holds_more(folder: str, size: int) -> bool:
    """Whether the files of a folder are more bytes than `size`, or too many or deep to look at."""
    held, deepest = 0, folder.count("/") + _DEEPEST
    for number, entry in enumerate(_entries(folder)):
        try:
            held += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
        except OSError:  # it is gone by now
            continue
        if held > size or number > _MOST_ENTRIES or entry.path.count("/") > deepest:
            return True
    return False


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:  # gone, not ours to read, or deeper than a path may be
            continue
