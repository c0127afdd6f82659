"""Counts what a service did, for metrics."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

_KEPT = 20_000
_PERCENTILES = (50, 95, 99)


class Tally:
    """Counts and latencies; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, float] = {}
        self._taken: dict[str, float] = {}
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, name: str, amount: float = 1) -> None:
        """Count something."""
        with self._lock:
            self._totals[name] = self._totals.get(name, 0) + amount

    def took(self, seconds: float) -> None:
        """Note how long an answer took."""
        with self._lock:
            self._seconds.append(seconds)

    def total(self, name: str) -> float:
        """How much was counted so far."""
        return self._totals.get(name, 0)

    def totals(self) -> dict[str, float]:
        """Everything that was counted so far."""
        with self._lock:
            return dict(self._totals)

    def take(self) -> dict[str, float]:
        """What was counted since the last call, and percentiles of its latencies.

        Returns:
            Counts by name, 0 included; `seconds_p50`, `seconds_p95` and `seconds_p99` where there
            was an answer.
        """
        with self._lock:
            taken, self._taken = self._taken, dict(self._totals)
            counts = {name: total - taken.get(name, 0) for name, total in self._totals.items()}
            seconds = sorted(self._seconds)
            self._seconds.clear()
        return {
            **counts,
            **{f"seconds_p{p}": percentile(seconds, p) for p in _PERCENTILES if seconds},
        }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed.

    Args:
        ordered: The values, rising; at least one.
        percent: From 0 to 100.
    """
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]
