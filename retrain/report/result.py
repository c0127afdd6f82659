"""`RunResult`: what a finished run leaves, and its file in the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from retrain.errors import DataError
from retrain.report.atomic import replace_bytes

RESULT = Path("state") / "result.json"
"""Written when a run has ended: a resumed run passes over the stages that have it."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run leaves.

    Attributes:
        run_dir: The run folder.
        model_dir: Hugging Face weights and tokenizer.
        iterations: How many iterations were trained, over all resumes.
        interrupted: True when it stopped early, at the user's wish, with a checkpoint.
        metrics: The last value of every metric.
    """

    run_dir: Path
    model_dir: Path
    iterations: int
    interrupted: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


def write_result(result: RunResult) -> None:
    """Mark a run as finished."""
    row = {
        "model": _inside(result.model_dir, result.run_dir),
        "iterations": result.iterations,
        "metrics": dict(result.metrics),
    }
    replace_bytes(result.run_dir / RESULT, (json.dumps(row, indent=2) + "\n").encode())


def _inside(folder: Path, run_dir: Path) -> str:
    """A path that still leads there when the run folder is moved, where it lies inside."""
    return str(folder.relative_to(run_dir) if folder.is_relative_to(run_dir) else folder)


def read_result(run_dir: Path) -> RunResult | None:
    """What a finished run left; None where it is not finished.

    Raises:
        DataError: The file is not what `write_result` writes.
    """
    path = run_dir / RESULT
    if not path.exists():
        return None
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        return RunResult(
            run_dir=run_dir,
            model_dir=run_dir / row["model"],
            iterations=int(row["iterations"]),
            metrics={name: float(value) for name, value in row["metrics"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it to go on") from error
