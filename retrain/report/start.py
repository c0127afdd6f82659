"""`Start`: the checkpoint of another run that a run begins with, and its file in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.rollout.state_file import State, read_state, write_state

START = Path("state") / "start.json"
"""Written before a run begins, so that a resume finds it where there is no checkpoint yet."""

_KIND = "start of a run"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run goes on from another one: its weights and its place in the data.

    Attributes:
        run: The other run's folder.
        backend: What trained it.
        iteration: The iteration after which its checkpoint was saved.
        model_dir: Its Hugging Face weights.
        buffer: The state of its `DataBuffer`.
        unfinished: Groups that it had drawn and not finished.
    """

    run: Path
    backend: str
    iteration: int
    model_dir: Path
    buffer: Mapping[str, Any]
    unfinished: int = 0

    def __str__(self) -> str:
        left = f"; {self.unfinished} unfinished groups are left out" if self.unfinished else ""
        return (
            f"going on from {self.run}, iteration {self.iteration} ({self.backend}): its weights "
            "and its place in the data; the optimizer's state and the learning-rate schedule "
            f"begin again{left}"
        )


def write_start(run_dir: Path, start: Start) -> None:
    """Put a start into a run folder."""
    row = {
        "run": str(start.run.absolute()),
        "backend": start.backend,
        "iteration": start.iteration,
        "model": str(start.model_dir.absolute()),
        "buffer": dict(start.buffer),
        "unfinished": start.unfinished,
    }
    write_state(run_dir / START, _KIND, State(row))


def read_start(run_dir: Path) -> Start | None:
    """The start of a run; None for a run that began by itself.

    Raises:
        DataError: The file is damaged, or of a newer version.
    """
    path = run_dir / START
    if not path.exists():
        return None
    remedy = "restore it from a copy, or begin again in another output_dir"
    row = read_state(path, _KIND, remedy).content
    return Start(
        run=Path(row["run"]),
        backend=str(row["backend"]),
        iteration=int(row["iteration"]),
        model_dir=Path(row["model"]),
        buffer=dict(row["buffer"]),
        unfinished=int(row["unfinished"]),
    )
