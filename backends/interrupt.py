"""Ctrl-C: the first stops after the iteration, with a checkpoint; the second stops now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class GracefulInterrupt:
    """A context in which SIGINT asks for a stop, and a second SIGINT raises KeyboardInterrupt.

    Outside the main thread signals cannot be caught, and it does nothing.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        """Make the context.

        Args:
            on_request: Called at the first SIGINT.
        """
        self.requested = False
        self._on_request = on_request
        self._previous: Any = None

    def __enter__(self) -> GracefulInterrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._on_request()
