"""Which checkpoints of the torch backend are complete, and what stands in them; needs no torch."""

from __future__ import annotations

from pathlib import Path

from backends.trl.checkpoints import Checkpoint
from retrain.rollout.state_file import read_state

MARKER = "retrain_state.json"
"""Written last, before the folder gets its name."""

KIND = "torch checkpoint"

_REMEDY = "remove its folder to go on from the checkpoint before it"


def folder_name(step: int) -> str:
    """The name of the checkpoint after a number of optimizer steps."""
    return f"checkpoint-{step}"


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """The newest complete checkpoint under a folder, or None.

    Raises:
        DataError: The marker of the newest one is damaged, or of a newer version.
    """
    markers = list(root.glob(f"checkpoint-*/{MARKER}"))
    if not markers:
        return None
    newest = max(markers, key=lambda path: int(path.parent.name.rpartition("-")[2]))
    return read_checkpoint(newest.parent)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a complete checkpoint's state.

    Raises:
        DataError: Its marker is missing (it was interrupted while it was saved), damaged, or of a
            newer version.
    """
    state = read_state(folder / MARKER, KIND, _REMEDY)
    return Checkpoint(folder, int(state.content["step"]), state.content, state.shape)
