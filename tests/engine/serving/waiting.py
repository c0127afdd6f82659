"""Waiting for something that happens in another thread."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)
