"""`metrics.jsonl`: the append-only source of truth of a run.

The names that stand in it are those of `retrain.report.metric_names`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from retrain.closing import Closing
from retrain.errors import DataError, RunFolderError
from retrain.report.jsonl import Line, ends_torn, read_lines

ITERATION = "iteration"
TIME = "time"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One row of `metrics.jsonl`.

    Attributes:
        iteration: The rollout-and-train iteration it belongs to; 0 is before training.
        time: When it was written, in seconds since the epoch.
        values: Numbers by name; None stands for one that was not finite.
    """

    iteration: int
    time: float
    values: Mapping[str, float | None]


class MetricsLog(Closing):
    """Appends rows to a metrics file; every row reaches the operating system at once."""

    def __init__(self, path: Path) -> None:
        """Open the file, making it where it does not exist.

        Args:
            path: The file.

        Raises:
            DataError: The file ends in a torn line; `RunFolder.rewind` moves it aside.
            RunFolderError: The file cannot be written.
        """
        self.path = path
        try:
            self._file: BinaryIO = path.open("ab")
            torn = ends_torn(path)
        except OSError as error:
            raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
        if torn:
            self._file.close()
            raise DataError(
                f"{path}: the last line is half-written (the process was killed); resume the run, "
                f"which moves it aside"
            )

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Append one row.

        Args:
            iteration: The iteration it belongs to; 0 is before training.
            metrics: Numbers by name; Python, NumPy or zero-dimensional torch numbers. NaN and
                infinities are written as null.

        Raises:
            ValueError: A metric is named "iteration" or "time".
            RunFolderError: The row cannot be written, for example because the disk is full.
        """
        reserved = {ITERATION, TIME} & metrics.keys()
        if reserved:
            raise ValueError(f"{sorted(reserved)[0]!r} is a column of its own, not a metric's name")
        row = {ITERATION: iteration, TIME: round(time.time(), 3)}
        numbers = {name: _number(value) for name, value in metrics.items()}
        line = json.dumps({**row, **numbers}, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise RunFolderError(f"{self.path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> list[MetricRow]:
    """Read a metrics file; a torn last line is left out.

    Args:
        path: The file.

    Returns:
        Its rows, in the order written.

    Raises:
        DataError: The file is missing, or a line is not a metrics row (file and line named).
    """
    try:
        return [metric_row(path, line) for line in read_lines(path) if not line.torn]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def iteration_of(path: Path, line: Line) -> int:
    """The iteration of a whole line of a metrics file.

    Raises:
        DataError: It has none.
    """
    iteration = (line.value or {}).get(ITERATION)
    if not isinstance(iteration, int) or isinstance(iteration, bool):
        raise DataError(f'{path}, line {line.number}: expected "iteration" to be a whole number')
    return iteration


def _is_number(value: Any) -> bool:
    """Whether a value can be computed with: JSON's integers may be too large for a float."""
    limit = sys.float_info.max
    return isinstance(value, float) or (isinstance(value, int) and -limit <= value <= limit)


def metric_row(path: Path, line: Line) -> MetricRow:
    """A whole line of a metrics file as a row.

    Raises:
        DataError: It is no metrics row.
    """
    iteration = iteration_of(path, line)
    values: dict[str, Any] = dict(line.value or {})
    del values[ITERATION]
    written = values.pop(TIME, 0.0)
    for name, value in [(ITERATION, iteration), (TIME, written), *values.items()]:
        if value is not None and not _is_number(value):
            raise DataError(f"{path}, line {line.number}: {name!r} is {value!r:.80}, not a number")
    return MetricRow(iteration, float(written or 0.0), values)


def _number(value: float) -> float | None:
    number = value if isinstance(value, int) and not isinstance(value, bool) else float(value)
    return number if math.isfinite(number) else None
