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

GRACE = 20.0
"""Seconds to end in good order."""


def main(argv: list[str]) -> None:
    """Run a module as `python -m` does.

    Args:
        argv: The module and its arguments.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
