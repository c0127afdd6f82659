"""The runs in a folder: itself, or the stages of a run that has several."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from retrain.errors import DataError
from retrain.report.run_folder import CONFIG, METRICS, SAMPLES
from retrain.report.terminal import one_line

STAGES = "stages"
_MARKS = (METRICS, SAMPLES, CONFIG)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A run to look at.

    Attributes:
        name: The stage's name; the folder's where the run has no stages. What cannot be shown of it
            is escaped.
        folder: Where it is.
    """

    name: str
    folder: Path


def find_runs(path: str | Path) -> tuple[RunPlace, ...]:
    """The runs in a folder, in the order they were begun; the last one is the newest.

    Args:
        path: A run folder, or one stage of it.

    Raises:
        DataError: It is no run folder.
    """
    folder = Path(os.path.expanduser(path)).absolute()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"{path} {what}; name a run folder, the output_dir of a run")
    try:
        stages = [stage for stage in (folder / STAGES).iterdir() if _is_run(stage)]
    except OSError:
        stages = []
    if stages:
        return tuple(RunPlace(one_line(stage.name), stage) for stage in sorted(stages, key=_begun))
    if not _is_run(folder):
        raise DataError(
            f"{path} holds no run (no {METRICS}, no {SAMPLES}/, no {CONFIG}); name the output_dir "
            "of a run"
        )
    return (RunPlace(one_line(folder.name), folder),)


def _is_run(folder: Path) -> bool:
    return folder.is_dir() and any((folder / mark).exists() for mark in _MARKS)


def _begun(folder: Path) -> tuple[int, str]:
    """When its configuration was written; a resume does not write it again."""
    config = folder / CONFIG
    return (config.stat().st_mtime_ns if config.exists() else 0), folder.name
