"""Series of one metric over the iterations, and their smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression

from retrain.report.metrics import MetricRow

LARGEST = 1e300
"""Values beyond it are left out like those that are not finite: a span of two of them overflows."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over the iterations.

    Attributes:
        iterations: [N] rising.
        values: [N] finite, at most `LARGEST` in size.
    """

    iterations: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, rows: Sequence[MetricRow], name: str) -> Series:
        """Collect a metric; where an iteration has several values the last one counts."""
        found: dict[int, float] = {}
        for row in rows:
            value = row.values.get(name)
            if value is not None and abs(value) <= LARGEST:
                found[row.iteration] = float(value)
        iterations = tuple(sorted(found))
        return cls(iterations, tuple(found[iteration] for iteration in iterations))

    def __bool__(self) -> bool:
        return bool(self.values)

    def smoothed(self) -> tuple[float, ...]:
        """[N] a straight line fitted around each point, taken at that point.

        The window is about a tenth of the series on either side, cut at the ends. Local linear
        regression does not bend the ends towards the middle as a moving average does (Cleveland,
        1979, "Robust locally weighted regression", with equal weights). Values stay within those
        of their window.
        """
        half = max(2, len(self.values) // 12)
        return tuple(self._fit(at, half) for at in range(len(self.values)))

    def _fit(self, at: int, half: int) -> float:
        window = slice(max(0, at - half), at + half + 1)
        xs, ys = self.iterations[window], self.values[window]
        if len(xs) < 3:
            return self.values[at]
        slope, intercept = linear_regression(xs, ys)
        return min(max(slope * self.iterations[at] + intercept, min(ys)), max(ys))

    def first(self, count: int) -> float | None:
        """Mean of the first `count` values; None of an empty series."""
        return fmean(self.values[:count]) if self.values else None

    def last(self, count: int) -> float | None:
        """Mean of the last `count` values; None of an empty series."""
        return fmean(self.values[-count:]) if self.values else None
