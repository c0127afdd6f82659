"""Checkpoints of the TRL backend: on generation boundaries, with the data state inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.report.atomic import replace_bytes

MARKER = "retrain_state.json"
"""Written last: a checkpoint without it was interrupted while it was saved."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        path: Its folder.
        step: Optimizer steps done.
        state: What `complete_checkpoint` put in.
    """

    path: Path
    step: int
    state: Mapping[str, Any]


def complete_checkpoint(output_dir: str | Path, step: int, state: Mapping[str, Any]) -> None:
    """Put the data state into the checkpoint that the trainer has just written."""
    path = Path(output_dir) / f"checkpoint-{step}" / MARKER
    text = json.dumps({"step": step, **state}, indent=2) + "\n"
    replace_bytes(path, text.encode())


def newest_checkpoint(output_dir: Path) -> Checkpoint | None:
    """The newest complete checkpoint of a run, or None where there is none.

    Raises:
        DataError: The marker of the newest one cannot be read.
    """
    markers = list(output_dir.glob(f"checkpoint-*/{MARKER}"))
    if not markers:
        return None
    marker = max(markers, key=lambda path: int(path.parent.name.rpartition("-")[2]))
    try:
        state = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise DataError(
            f"{marker}: cannot be read ({error}); remove its folder to go on"
        ) from error
    return Checkpoint(marker.parent, int(state["step"]), state)
