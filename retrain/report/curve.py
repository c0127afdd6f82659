"""`curve.png`: reward, success and what else tells whether a run learns, over the iterations."""

from __future__ import annotations

from pathlib import Path

from retrain.errors import DataError, MissingDependency, RunFolderError
from retrain.report.atomic import replacing
from retrain.report.metrics import read_metrics
from retrain.report.run_folder import CURVE, METRICS
from retrain.report.series import Series
from retrain.report.written_config import read_written_config

DRAWN = ("reward/mean", "success", "eval/success", "train/loss")
"""The metrics of the large panel; the loss only where there is no other (supervised runs)."""


def plot_curve(run_dir: Path) -> Path:
    """Draw the learning curve of a run into its folder.

    Args:
        run_dir: The run folder; its metrics.jsonl is read.

    Returns:
        The picture's path, `run_dir`/curve.png.

    Raises:
        DataError: metrics.jsonl is missing, malformed or holds none of the curve's metrics.
        MissingDependency: matplotlib is not installed.
        RunFolderError: The picture cannot be written.
    """
    rows = read_metrics(run_dir / METRICS)
    if not any(Series.of(rows, name) for name in DRAWN):
        raise DataError(f"{run_dir / METRICS}: holds none of {', '.join(DRAWN)} to draw yet")
    try:
        from retrain.report.curve_panels import write_png
    except ImportError as error:
        raise MissingDependency(
            'drawing the curve needs matplotlib: pip install "retrain[plot]"'
        ) from error
    picture = run_dir / CURVE
    try:
        with replacing(picture) as file:
            write_png(file, rows, experiment_name(run_dir))
    except OSError as error:
        raise RunFolderError(f"{picture}: cannot be written: {error.strerror or error}") from error
    return picture


def experiment_name(run_dir: Path) -> str:
    """The run's `experiment_name`; the folder's name where its configuration gives none."""
    try:
        name = read_written_config(run_dir).get("experiment_name")
    except DataError:
        name = None
    return str(name) if name else run_dir.absolute().name
