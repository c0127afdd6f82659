"""Line charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from retrain.report.page.frame import LEFT, RIGHT, Frame, frame_of
from retrain.report.page.markup import Html, element, joined
from retrain.report.series import Series

LINES = 6
"""Colours, each with a dash of its own, so that a line is known without its colour."""

_MOST_POINTS = 300
_MOST_TIPS = 100


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart.

    Attributes:
        label: What it is called.
        series: Its points.
        colour: From 1 to `LINES`.
        dots: Draw every point, without smoothing: for values that come seldom.
    """

    label: str
    series: Series
    colour: int
    dots: bool = False


def chart(
    lines: Sequence[Line],
    title: Html,
    says: str,
    *,
    width: float,
    height: float,
    log: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Html:
    """Draw lines over the iterations.

    Args:
        lines: What to draw; those without values are left out.
        title: The heading.
        says: What it shows, for people who do not see it.
        width: Of the drawing, in its own units; it fills its place whatever they are.
        height: Of the drawing.
        log: Draw the logarithm where every value allows it.
        bounds: Least and greatest value; None takes them from the values.

    Returns:
        A figure; empty where no line has values.
    """
    drawn = [line for line in lines if line.series]
    if not drawn:
        return Html("")
    frame = frame_of([line.series for line in drawn], width, height, log=log, bounds=bounds)
    svg = element(
        "svg",
        _axes(frame),
        *(_draw(line, frame) for line in drawn),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{says}: {'; '.join(map(_in_words, drawn))}",
    )
    legend = element("div", *map(_key, drawn), class_="legend") if len(drawn) > 1 else None
    return element("figure", element("h3", title), svg, legend, class_="chart")


def _in_words(line: Line) -> str:
    first, last = line.series.values[0], line.series.values[-1]
    count = len(line.series.values)
    return f"{line.label} goes from {first:.4g} to {last:.4g} over {count} points"


def _key(line: Line) -> Html:
    stroke = element("line", x1=1, y1=5, x2=25, y2=5, class_=f"draw-{line.colour}")
    return element(
        "span",
        element("svg", stroke, viewBox="0 0 26 10", aria_hidden="true"),
        line.label,
        class_="key",
    )


def _axes(frame: Frame) -> Html:
    parts: list[Html] = []
    right = frame.width - RIGHT
    for value in frame.value_ticks:
        y = frame.y(value)
        parts.append(element("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(element("text", _short(value), x=LEFT - 7, y=y + 3.5, text_anchor="end"))
    for at in frame.iteration_ticks:
        where = {"x": frame.x(at), "y": frame.height - 6}
        parts.append(element("text", _short(at), **where, text_anchor="middle"))
    return element("g", *parts, class_="axes")


def _short(value: float) -> str:
    """A number as an axis shows it."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.4g}".replace("-0", "0") if value == 0 else f"{value:.4g}"


def _draw(line: Line, frame: Frame) -> Html:
    class_ = f"draw-{line.colour}"
    points = list(zip(line.series.iterations, line.series.values, strict=True))
    tips = (
        [_tip(line, at, value, frame) for at, value in points] if len(points) <= _MOST_TIPS else []
    )
    if line.dots or len(points) == 1:
        dots = (element("circle", cx=frame.x(at), cy=frame.y(v), class_=class_) for at, v in points)
        return joined([_path(points, frame, f"{class_} thin"), *dots, *tips])
    coarse = _coarse(line.series)
    smooth = list(zip(coarse.iterations, coarse.smoothed(), strict=True))
    return joined([_path(points, frame, f"{class_} raw"), _path(smooth, frame, class_), *tips])


def _tip(line: Line, at: float, value: float, frame: Frame) -> Html:
    """What a pointer that rests on a point is told."""
    says = element("title", f"{line.label}, iteration {at}: {value:.4g}")
    return element("circle", says, cx=frame.x(at), cy=frame.y(value), class_="tip")


def _path(points: Sequence[tuple[int, float]], frame: Frame, class_: str) -> Html:
    places = (f"{frame.x(at):.1f} {frame.y(value):.1f}" for at, value in _thinned(points))
    return element("path", d="M" + "L".join(places), class_=class_)


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The least and the greatest point of each stretch, so that no peak is lost."""
    if len(points) <= 2 * _MOST_POINTS:
        return list(points)
    size = math.ceil(len(points) / _MOST_POINTS)
    kept: list[tuple[int, float]] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept


def _coarse(series: Series) -> Series:
    """The mean of each stretch of a long series: smoothing takes the square of its length."""
    count = len(series.values)
    if count <= _MOST_POINTS:
        return series
    size = math.ceil(count / _MOST_POINTS)
    stretches = [slice(at, min(at + size, count)) for at in range(0, count, size)]
    return Series(
        tuple(round(fmean(series.iterations[stretch])) for stretch in stretches),
        tuple(fmean(series.values[stretch]) for stretch in stretches),
    )
