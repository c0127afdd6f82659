"""The panel of the rewards by component. Importing this file imports matplotlib (never pyplot)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from retrain.report.metrics import MetricRow
from retrain.report.series import Series
from retrain.report.terminal import one_line

_PREFIX = "reward/"
_SUMS = ("mean", "std")
_COLOURS = ("#3b76d9", "#12805c", "#d1491b", "#7a52b3", "#a6761d", "#5b6875")
_LONGEST = 18


def component_series(rows: Sequence[MetricRow]) -> dict[str, Series]:
    """The raw reward by component, where there are at least two; the first six by name.

    Args:
        rows: The run's metrics.
    """
    names = {name.removeprefix(_PREFIX) for row in rows for name in row.values if _is_one(name)}
    found = {name: Series.of(rows, _PREFIX + name) for name in sorted(names)}
    known = {name: series for name, series in found.items() if series}
    return dict(list(known.items())[: len(_COLOURS)]) if len(known) > 1 else {}


def draw_components(axes: Axes, components: dict[str, Series]) -> None:
    """Draw one smoothed line for each component."""
    for (name, series), colour in zip(components.items(), _COLOURS, strict=False):
        dot = "o" if len(series.values) == 1 else "-"
        axes.plot(
            series.iterations,
            series.smoothed(),
            dot,
            color=colour,
            linewidth=1.6,
            label=_label(name),
        )
    axes.set_title("raw reward by component", loc="left", size=9.5)
    axes.set_xlabel("iteration")
    axes.legend(fontsize=7.5, loc="best", handlelength=1.2, borderaxespad=0.1, labelspacing=0.2)


def _label(name: str) -> str:
    """A name that matplotlib shows as it is: it hides labels that begin with "_", and reads $."""
    text = one_line(name)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f" {text}".replace("$", r"\$")


def _is_one(name: str) -> bool:
    rest = name.removeprefix(_PREFIX)
    return name.startswith(_PREFIX) and "/" not in rest and rest not in _SUMS
