"""A circuit breaker: a service that keeps failing is left alone for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

from retrain.reward.hub.service_faults import FaultKind, ServiceFailure


class BreakerState(StrEnum):
    """Whether a service is asked."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class CircuitBreaker:
    """Refuses requests after too many failures in a row; safe to use from any thread.

    After `seconds`, one request is let through: where it succeeds all are, else the wait begins
    again.

    Args:
        what: The service, for messages.
        failures: How many in a row open it.
        seconds: How long it stays open.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        what: str,
        failures: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failed = 0
        self._opened_at: float | None = None
        self._probing = False
        self._last = ""

    @property
    def state(self) -> BreakerState:
        """Whether the service is asked now."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        waited = self._clock() - self._opened_at >= self._seconds
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    def admit(self) -> None:
        """Let a request through; each ends with `record` or `release`.

        Raises:
            ServiceFailure: The breaker is open, or another request tries whether it can be closed.
        """
        with self._lock:
            if self._opened_at is None:
                return
            left = self._opened_at + self._seconds - self._clock()
            if left <= 0 and not self._probing:
                self._probing = True
                return
            again = f"in {left:.1f} s" if left > 0 else "by one request now"
            raise ServiceFailure(
                f"{self._what}: not asked: the circuit breaker is open after {self._failed} "
                f"failures in a row; the service is tried again {again}; the last: {self._last}",
                kind=FaultKind.BREAKER,
            )

    def record(self, failure: ServiceFailure | None) -> None:
        """Count how a request ended.

        Args:
            failure: Why the service does not work; None where it answered.
        """
        with self._lock:
            self._probing = False
            if failure is None:
                self._failed, self._opened_at = 0, None
                return
            self._failed, self._last = self._failed + 1, str(failure)
            if self._failed >= self._most:
                self._opened_at = self._clock()

    def release(self) -> None:
        """End a request of which nothing is known: its caller left."""
        with self._lock:
            self._probing = False
