"""Where values stand on a chart: its scales, bounds and ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from retrain.report.series import Series

LEFT, RIGHT, TOP, BOTTOM = 40.0, 10.0, 8.0, 22.0
"""Room around the lines, for the numbers of the axes."""

_LEAST_SPAN = 0.1


@dataclass(frozen=True, slots=True)
class Frame:
    """Where values stand on the drawing.

    Attributes:
        width: Of the drawing, in its own units.
        height: Of the drawing.
        xs: First and last iteration.
        ys: Least and greatest value drawn; logarithms where `log`.
        log: Whether the axis of values is logarithmic.
    """

    width: float
    height: float
    xs: tuple[float, float]
    ys: tuple[float, float]
    log: bool = False

    def x(self, iteration: float) -> float:
        """The place of an iteration."""
        share = (iteration - self.xs[0]) / (self.xs[1] - self.xs[0])
        return LEFT + share * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The place of a value; one outside is put on the edge."""
        scaled = math.log10(value) if self.log and value > 0 else value
        share = (scaled - self.ys[0]) / (self.ys[1] - self.ys[0])
        return TOP + (1 - min(1.0, max(0.0, share))) * (self.height - TOP - BOTTOM)

    @property
    def value_ticks(self) -> list[float]:
        """Round values for the axis, six or so."""
        low, high = self.ys
        if not self.log:
            return ticks(low, high)
        powers = range(int(low), int(high) + 1)
        return [10.0**power for power in powers][:: max(1, math.ceil(len(powers) / 6))]

    @property
    def iteration_ticks(self) -> list[int]:
        """Round iterations for the axis."""
        return [round(tick) for tick in ticks(*self.xs) if tick == int(tick)]


def frame_of(
    series: Sequence[Series],
    width: float,
    height: float,
    *,
    log: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Frame:
    """The frame that some series fit into.

    Args:
        series: What is drawn; each has values.
        width: Of the drawing.
        height: Of the drawing.
        log: Make the axis logarithmic where every value allows it.
        bounds: Least and greatest value; None takes them from the values.
    """
    iterations = [at for one in series for at in one.iterations]
    values = [value for one in series for value in one.values]
    first, last = float(min(iterations)), float(max(iterations))
    xs = (first, last) if last > first else (first - 1, first + 1)
    if log and min(values) > 0:
        low = math.floor(math.log10(min(values)))
        high = max(math.ceil(math.log10(max(values))), low + 1)
        return Frame(width, height, xs, (low, high), log=True)
    return Frame(width, height, xs, bounds or _bounds(min(values), max(values)))


def _bounds(low: float, high: float) -> tuple[float, float]:
    """Round bounds, from 0 where that is near; a small change is not drawn as a large one."""
    least = _LEAST_SPAN * max(abs(low), abs(high))
    if low >= 0 and (low <= 0.6 * high or low == high):
        low = 0.0
    elif high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    step = _step(high - low or 1.0)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return bottom, top if top > bottom else bottom + step


def _step(span: float) -> float:
    """A round step that cuts a span into four or so."""
    raw = span / 4
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)


def ticks(low: float, high: float) -> list[float]:
    """Round values between two others."""
    step = _step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
