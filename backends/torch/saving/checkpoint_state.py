"""Which checkpoints of the torch backend are complete, and what stands in them; needs no torch."""

from __future__ import annotations

from pathlib import Path

from backends.local import checkpoints
from backends.local.checkpoints import Checkpoint

KIND = "torch checkpoint"


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """See `backends.local.checkpoints.newest_checkpoint`."""
    return checkpoints.newest_checkpoint(root, KIND)


def read_checkpoint(folder: Path) -> Checkpoint:
    """See `backends.local.checkpoints.read_checkpoint`."""
    return checkpoints.read_checkpoint(folder, KIND)
