"""Complete checkpoints of a run, and what must stay the same to go on from one; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.base import Plan
from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.model_files import model_structure, structure_difference, vocabulary_difference
from retrain.rollout.state_file import read_state

MARKER = "retrain_state.json"
"""Written last: a checkpoint without it was interrupted while it was saved."""

_REMEDY = "remove its folder to go on from the checkpoint before it"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        path: Its folder.
        step: Optimizer steps done.
        state: What a resume needs besides the trainer's own files, such as the place in the data.
        shape: What of the run must stay the same (`run_shape`).
    """

    path: Path
    step: int
    state: Mapping[str, Any]
    shape: Mapping[str, Any] = field(default_factory=dict)


def folder_name(step: int | str) -> str:
    """The name of the checkpoint after a number of optimizer steps, or a pattern of names."""
    return f"checkpoint-{step}"


def newest_checkpoint(root: Path, kind: str) -> Checkpoint | None:
    """The newest complete checkpoint under a folder, or None where there is none.

    Args:
        root: Holds the checkpoints of a run.
        kind: Says in its marker which backend wrote it.

    Raises:
        DataError: The marker of the newest one is damaged, of another kind or of a newer version.
    """
    markers = list(root.glob(f"checkpoint-*/{MARKER}"))
    if not markers:
        return None
    marker = max(markers, key=lambda path: int(path.parent.name.rpartition("-")[2]))
    return read_checkpoint(marker.parent, kind)


def read_checkpoint(folder: Path, kind: str) -> Checkpoint:
    """Read a complete checkpoint.

    Args:
        folder: Its folder.
        kind: Says in its marker which backend wrote it.

    Raises:
        DataError: Its marker is missing (it was interrupted while it was saved), damaged, of
            another kind or of a newer version.
    """
    state = read_state(folder / MARKER, kind, _REMEDY)
    return Checkpoint(folder, int(state.content["step"]), state.content, state.shape)


def run_shape(plan: Plan) -> dict[str, Any]:
    """What of a run must stay the same over a resume, or its steps and tasks mean something else.

    The algorithm, the group size, the sizes of batches and the model's structure; how long it
    trains may change.
    """
    hyper = plan.config.algorithm.hyperparameters
    structure = model_structure(plan.config)
    return {
        "algorithm.name": plan.config.algorithm.name,
        "rollout_batch_size": hyper.rollout_batch_size,
        "n_samples_per_prompt": hyper.n_samples_per_prompt,
        "global_batch_size": hyper.global_batch_size,
        "optimizer steps per iteration": plan.sizes["optimizer_steps_per_iteration"],
        **{f"model: {name}": value for name, value in structure.items()},
    }


def require_same_model(config: RunConfig, checkpoint: Checkpoint) -> None:
    """Refuse to resume with another model than the checkpoint's.

    Raises:
        ConfigError: Naming both, and what differs.
    """
    theirs = {
        name.removeprefix("model: "): value
        for name, value in checkpoint.shape.items()
        if name.startswith("model: ")
    }
    difference = structure_difference(theirs, model_structure(config)) if theirs else None
    difference = difference or vocabulary_difference(config, checkpoint.path)
    if difference:
        raise ConfigError(
            f"{checkpoint.path}: is of another model than model.name_or_path "
            f"({config.model.name_or_path}): {difference}; resume with the run's own "
            "configuration, or start a new run"
        )
