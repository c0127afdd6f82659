"""`RunRecord`: what a run folder says about a run, whatever state it was left in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.report.folder_lock import is_held
from retrain.report.jsonl import parse_line
from retrain.report.metrics import MetricRow, metric_row
from retrain.report.provenance import Beginning, read_beginnings
from retrain.report.result import read_result
from retrain.report.run_folder import CONFIG, METRICS
from retrain.report.written_config import read_written_config

_MOST_PROBLEMS = 10


class RunState(StrEnum):
    """How far a run is."""

    GOING_ON = "going on"
    FINISHED = "finished"
    STOPPED = "stopped early"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, read from its folder.

    Attributes:
        folder: The run folder.
        title: The experiment's name, with the stage's.
        config: The resolved configuration; empty where it cannot be read.
        rows: The metrics.
        beginnings: Who began it, and who went on with it; empty for a run of an older retrain.
        state: How far it is.
        problems: What could not be read, and why.
    """

    folder: Path
    title: str
    config: Mapping[str, Any]
    rows: Sequence[MetricRow]
    beginnings: Sequence[Beginning] = ()
    state: RunState = RunState.STOPPED
    problems: Sequence[str] = field(default_factory=tuple)

    @property
    def backend(self) -> str:
        """The backend's name; "?" where the configuration does not say."""
        return str(self.setting("algorithm", "backend") or "?")

    @property
    def iterations(self) -> int:
        """How many iterations have rows."""
        return max((row.iteration for row in self.rows), default=0)

    @property
    def planned(self) -> int | None:
        """How many iterations it is to have."""
        count = self.setting("algorithm", "hyperparameters", "num_iterations")
        return count if isinstance(count, int) else None

    @property
    def seconds(self) -> float:
        """From its first beginning, or else its configuration's writing, to its last row."""
        if not self.rows:
            return 0.0
        config = self.folder / CONFIG
        written = config.stat().st_mtime if config.exists() else self.rows[0].time
        began = self.beginnings[0].time if self.beginnings else written
        return max(0.0, self.rows[-1].time - began)

    def setting(self, *keys: str) -> Any:
        """A value of the configuration; None where there is none."""
        value: Any = self.config
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read_record(folder: Path) -> RunRecord:
    """Read what a run folder holds; what cannot be read is named and left out.

    Args:
        folder: The run folder, or a stage's.
    """
    problems: list[str] = []
    config = _config(folder, problems)
    rows = _rows(folder / METRICS, problems)
    beginnings: Sequence[Beginning] = ()
    try:
        beginnings = read_beginnings(folder)
    except DataError as error:
        problems.append(str(error))
    return RunRecord(
        folder=folder,
        title=_title(folder, config),
        config=config,
        rows=rows,
        beginnings=beginnings,
        state=_state(folder, problems),
        problems=tuple(problems),
    )


def _title(folder: Path, config: Mapping[str, Any]) -> str:
    name = str(config.get("experiment_name") or folder.absolute().name)
    return f"{name} / {folder.name}" if folder.parent.name == "stages" else name


def _state(folder: Path, problems: list[str]) -> RunState:
    if is_held(folder / ".lock"):
        return RunState.GOING_ON
    try:
        done = read_result(folder)
    except DataError as error:
        problems.append(str(error))
        return RunState.STOPPED
    return RunState.STOPPED if done is None else RunState.FINISHED


def _config(folder: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        return read_written_config(folder)
    except DataError as error:
        problems.append(str(error))
        return {}


def _rows(path: Path, problems: list[str]) -> list[MetricRow]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        problems.append(f"{path}: no metrics are recorded yet")
        return []
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror or error}")
        return []
    rows, broken = _parsed(path, lines)
    hidden = len(broken) - _MOST_PROBLEMS
    problems += broken[:_MOST_PROBLEMS]
    if hidden > 0:
        problems.append(f"{path}: {hidden} more lines like these")
    return rows


def _parsed(path: Path, lines: Sequence[bytes]) -> tuple[list[MetricRow], list[str]]:
    """The rows of a file's lines, and what is wrong with the others; a torn last one is neither."""
    rows: list[MetricRow] = []
    broken: list[str] = []
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = parse_line(path, number, raw if number == len(lines) else raw + b"\n")
            if not line.torn:
                rows.append(metric_row(path, line))
        except DataError as error:
            broken.append(str(error))
    return rows, broken
