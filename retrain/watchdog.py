"""Notices that code blocks the event loop, and says which: one such call stops every episode."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

Tell = Callable[[str], None]

_OURS = frozenset({"asyncio", "backends", "bridges", "contextlib", "retrain", "threading"})
_LOOK_SECONDS = 1.0


class LoopWatchdog:
    """Asks a loop from a thread of its own whether it still answers, and tells when it does not.

    A call that blocks is told once, when it has lasted for `seconds`; it is not broken off.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: threading.Thread,
        *,
        seconds: float,
        tell: Tell,
    ) -> None:
        """Begin to watch.

        Args:
            loop: The loop to watch.
            thread: The thread that runs it.
            seconds: How long a call may block.
            tell: Takes the message; called in the watching thread.
        """
        self._loop = loop
        self._thread = thread
        self._seconds = seconds
        self._tell = tell
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="retrain-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        pause = min(_LOOK_SECONDS, self._seconds / 4)
        while not self._stopped.wait(pause):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._seconds) and not self._stopped.is_set():
                self._tell(self._message())
            while not answered.wait(pause) and not self._stopped.is_set():
                pass

    def _message(self) -> str:
        task = asyncio.current_task(self._loop)
        who = "a call" if task is None else task.get_name()
        frame = sys._current_frames().get(self._thread.ident or 0)
        place = "" if frame is None else f" at {_place(frame)}"
        return (
            f"warning: {who} has blocked the event loop for {self._seconds:g} s{place}; no other "
            "episode goes on meanwhile. Await what takes long, or write the method without async: "
            "it then runs in a thread"
        )


def to_stderr(text: str) -> None:
    """Write a message to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _place(innermost: FrameType) -> str:
    """Where retrain has called into somebody else's code, or else where it is itself."""
    found = innermost
    for frame in _outwards(innermost):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS:
            break
        found = frame
    return f"{found.f_code.co_filename}:{found.f_lineno} in {found.f_code.co_qualname}"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
