"""Draw the demo on TRL and on slime side by side, and print their figures as a table.

python examples/calculator/plot_two_runs.py picture.png \
    --trl runs/calculator --slime runs/calculator-slime

Several runs of a backend (other seeds) are drawn in one colour.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from retrain.report.metrics import read_metrics

STAGE = Path("stages") / "grpo"
COLOURS = {"TRL": "#1f77b4", "slime": "#d62728"}
WINDOW = 8
"""Iterations that a point of the training curve is the mean of."""

HELD_OUT, TRAINED, DISTANCE = "eval/success", "success", "train/logprob_abs_diff"

Curve = dict[int, float]
"""A metric's values by iteration."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run's grpo stage.

    Attributes:
        backend: "TRL" or "slime".
        folder: The run folder.
        curves: Its metrics' values, by name.
    """

    backend: str
    folder: Path
    curves: dict[str, Curve]


def read_run(backend: str, folder: Path) -> Run:
    """Read the metrics of a run."""
    curves: dict[str, Curve] = {HELD_OUT: {}, TRAINED: {}, DISTANCE: {}}
    for row in read_metrics(folder / STAGE / "metrics.jsonl"):
        for name, curve in curves.items():
            value = row.values.get(name)
            if value is not None:
                curve[row.iteration] = value
    return Run(backend, folder, curves)


def smooth(curve: Curve) -> Curve:
    """The mean of each iteration and those before it, `WINDOW` at most."""
    values = [curve[iteration] for iteration in sorted(curve)]
    means = (fmean(values[max(0, n - WINDOW) : n]) for n in range(1, len(values) + 1))
    return dict(zip(sorted(curve), means, strict=True))


def draw(picture: Path, runs: Sequence[Run]) -> None:
    """Draw held-out success, training success and the distance of the logprobs."""
    figure, (held_out, trained, distance) = plt.subplots(1, 3, figsize=(13, 3.8))
    for run in runs:
        _line(held_out, run, run.curves[HELD_OUT], marker="o")
        _line(trained, run, smooth(run.curves[TRAINED]))
        _line(distance, run, run.curves[DISTANCE])
    held_out.set_title("held-out success (200 tasks)")
    trained.set_title(f"training success (mean of {WINDOW} iterations)")
    distance.set_title("mean |logprob of engine - of trainer|")
    distance.set_yscale("log")
    for axes in (held_out, trained):
        axes.set_ylim(0, 1)
    for axes in (held_out, trained, distance):
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
    handles, labels = held_out.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    held_out.legend(list(named.values()), list(named), loc="lower right")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def _line(axes: Axes, run: Run, curve: Curve, marker: str = "") -> None:
    points = sorted(curve.items())
    axes.plot(
        [iteration for iteration, _ in points],
        [value for _, value in points],
        marker=marker,
        color=COLOURS[run.backend],
        label=run.backend,
        linewidth=1.4,
    )


def table(runs: Sequence[Run]) -> str:
    """The runs as Markdown: a column each."""
    rows = [
        ["", *(f"{run.backend}, {run.folder.name}" for run in runs)],
        ["---", *("---" for _ in runs)],
    ]
    for iteration in sorted({i for run in runs for i in run.curves[HELD_OUT]}):
        cells = [_cell(run.curves[HELD_OUT].get(iteration), ".3f") for run in runs]
        rows.append([f"held-out success at {iteration}", *cells])
    for name, label, form in ((TRAINED, "training success", ".3f"), (DISTANCE, DISTANCE, ".1e")):
        for where, part in (("first", slice(WINDOW)), ("last", slice(-WINDOW, None))):
            found = ([run.curves[name][i] for i in sorted(run.curves[name])][part] for run in runs)
            cells = [_cell(fmean(values) if values else None, form) for values in found]
            rows.append([f"{label}, {where} {WINDOW}", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def main() -> None:
    """Read the command line, draw and print."""
    parser = argparse.ArgumentParser(description="Draw the demo on TRL and on slime side by side.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--trl", type=Path, nargs="+", required=True, metavar="RUN")
    parser.add_argument("--slime", type=Path, nargs="+", required=True, metavar="RUN")
    given = parser.parse_args()
    runs = [read_run("TRL", folder) for folder in given.trl]
    runs += [read_run("slime", folder) for folder in given.slime]
    draw(given.picture, runs)
    print(table(runs))


if __name__ == "__main__":
    main()
