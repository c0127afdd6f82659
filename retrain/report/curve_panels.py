"""The panels of the learning curve. Importing this file imports matplotlib (never pyplot)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from retrain.report.curve_components import component_series, draw_components
from retrain.report.metrics import MetricRow
from retrain.report.series import Series
from retrain.report.terminal import one_line

_INK, _MUTED, _GRID = "#1f2933", "#5b6875", "#e6eaee"
_SUCCESS, _REWARD, _HELD_OUT, _LOSS = "#12805c", "#3b76d9", "#d1491b", "#5b6875"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class _Panel:
    """A small panel: which metric, its title with the unit, its colour, its scale."""

    metric: str
    title: str
    colour: str
    logarithmic: bool = False


_SMALL = (
    _Panel("response/tokens", "response, sampled tokens per episode", "#7a52b3"),
    _Panel("train/logprob_abs_diff", "mean |train - rollout logprob|, nats", "#a6761d", True),
)

_LOSS_PANEL = _Panel("train/loss", "loss, nats per trained token", _LOSS)


def write_png(file: BinaryIO, rows: Sequence[MetricRow], title: str) -> None:
    """Draw the curve as a PNG of 1440 x 1024 pixels.

    Args:
        file: Where to write it.
        rows: The run's metrics.
        title: The heading.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(9, 6.4), dpi=160, facecolor="white")
        figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
        main = _draw(figure, rows)
        heading = main.set_title(one_line(title), loc="left", pad=32, size=15, weight="bold")
        heading.set_parse_math(False)
        FigureCanvasAgg(figure)
        figure.savefig(file, format="png", dpi=160, facecolor="white")


def _draw(figure: Figure, rows: Sequence[MetricRow]) -> Axes:
    panels = [panel for panel in _SMALL if Series.of(rows, panel.metric)]
    components = component_series(rows)
    columns = len(panels) + bool(components)
    heights = [2.7, 1.0] if columns else [1.0]
    grid = figure.add_gridspec(len(heights), max(1, columns), height_ratios=heights)
    main = figure.add_subplot(grid[0, :])
    _draw_main(main, rows)
    last = max(row.iteration for row in rows)
    margin = max(0.5, 0.015 * last)
    main.set_xlim(min(row.iteration for row in rows) - margin, last + margin)
    for column, panel in enumerate(panels):
        axes = figure.add_subplot(grid[1, column], sharex=main)
        _draw_small(axes, Series.of(rows, panel.metric), panel)
    if components:
        draw_components(figure.add_subplot(grid[1, len(panels)], sharex=main), components)
    return main


def _draw_main(axes: Axes, rows: Sequence[MetricRow]) -> None:
    success, reward = Series.of(rows, "success"), Series.of(rows, "reward/mean")
    held_out = Series.of(rows, "eval/success")
    shares = bool(success or held_out)
    apart = shares and bool(reward) and not _is_share(reward)
    rewards = axes.twinx() if apart else axes
    handles: list[Artist] = []
    if not (shares or reward):
        _draw_small(axes, Series.of(rows, "train/loss"), _LOSS_PANEL)
        return
    same = reward == success
    if reward and not same:
        handles.append(_line(rewards, reward, _REWARD, "reward, batch mean"))
    if success:
        label = "success = reward, training tasks" if same else "success, training tasks"
        handles.append(_line(axes, success, _SUCCESS, label))
    if held_out:
        handles.append(_points(axes, held_out))
    _label_main(axes, shares=shares, reward=bool(reward) and not apart)
    if apart:
        _label_right(rewards)
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.015, 1.0), ncols=3, borderaxespad=0.2
    )


def _label_main(axes: Axes, *, shares: bool, reward: bool) -> None:
    if shares:
        axes.set_ylim(-0.03, 1.03)
        axes.set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    names = ["success (share of episodes)"] * shares + ["reward"] * reward
    axes.set_ylabel(" · ".join(names))
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def _label_right(axes: Axes) -> None:
    axes.set_ylabel("reward", color=_REWARD)
    axes.tick_params(axis="y", colors=_REWARD)
    axes.grid(False)
    axes.spines["right"].set(visible=True, color=_REWARD)


def _draw_small(axes: Axes, series: Series, panel: _Panel) -> None:
    _line(axes, series, panel.colour, panel.title)
    axes.set_title(panel.title, loc="left", size=9.5, color=_INK)
    axes.set_xlabel("iteration")
    if panel.logarithmic and min(series.values) > 0:
        axes.set_yscale("log")
        low, high = math.log10(min(series.values)), math.log10(max(series.values))
        axes.set_ylim(10 ** math.floor(low), 10 ** max(math.ceil(high), math.floor(low) + 1))
    elif min(series.values) >= 0:
        axes.set_ylim(bottom=0)


def _line(axes: Axes, series: Series, colour: str, label: str) -> Artist:
    """Draw the values lightly and their smoothing strongly."""
    axes.plot(series.iterations, series.values, color=colour, alpha=0.28, linewidth=1.0)
    dot = "o" if len(series.values) == 1 else ""
    strong = axes.plot(
        series.iterations, series.smoothed(), dot, color=colour, linewidth=2.2, label=label
    )
    if not dot:
        strong[0].set_linestyle("-")
    return strong[0]


def _points(axes: Axes, series: Series) -> Artist:
    points = axes.plot(
        series.iterations,
        series.values,
        color=_HELD_OUT,
        linewidth=1.2,
        linestyle=(0, (4, 3)),
        marker="o",
        markersize=7,
        markeredgecolor="white",
        markeredgewidth=1.2,
        zorder=5,
        label="success, held-out tasks",
        clip_on=False,
    )
    _annotate(axes, series, 0, above=series.values[0] < 0.08)
    if len(series.values) > 1:
        _annotate(axes, series, -1, above=series.values[-1] < 0.95)
    return points[0]


def _annotate(axes: Axes, series: Series, at: int, *, above: bool) -> None:
    """Write a held-out value beside its point, inside the axes."""
    text = axes.annotate(
        f"{series.values[at]:.2f}",
        (series.iterations[at], series.values[at]),
        xytext=(3 if at else -3, 8 if above else -8),
        textcoords="offset points",
        ha="right" if at else "left",
        va="bottom" if above else "top",
        color=_HELD_OUT,
        weight="bold",
        zorder=6,
    )
    text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0})


def _is_share(series: Series) -> bool:
    return min(series.values) >= -0.02 and max(series.values) <= 1.02
