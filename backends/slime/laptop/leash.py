"""Run a module that ends when the process that started it does, however that one ends.

`python -m backends.slime.laptop.leash MODULE ARGUMENTS…`, with a pipe as standard input. Nobody
writes into the pipe: it closes when its other end does, and the operating system sees to that.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from types import FrameType

GRACE = 20.0
"""Seconds to end in good order."""
_AGAIN = 0.1
_heard = threading.Event()


def main(argv: list[str]) -> None:
    """Run a module as `python -m` does.

    Args:
        argv: The module and its arguments.
    """
    signal.signal(signal.SIGINT, _interrupt)  # a shell's background job ignores it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    until = time.monotonic() + GRACE
    _interrupt_main_thread(until)
    time.sleep(max(0.0, until - time.monotonic()))
    os._exit(1)


def _interrupt_main_thread(until: float) -> None:
    """Signal until Python's handler ran.

    A signal that comes just as the main thread enters a blocking call is seen after that call
    alone; the next one interrupts it. A module's own handler is signalled once.
    """
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    while True:
        signal.pthread_kill(main_thread, signal.SIGINT)
        if signal.getsignal(signal.SIGINT) is not _interrupt or _heard.wait(_AGAIN):
            return
        if time.monotonic() > until:
            return


def _interrupt(number: int, frame: FrameType | None) -> None:
    _heard.set()
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main(sys.argv[1:])
