"""Checkpoints of the TRL backend: on generation boundaries, with the data state inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.base import Plan
from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.launch import Launch
from retrain.model_files import model_structure, structure_difference, vocabulary_difference
from retrain.rollout.state_file import State, read_state, write_state
from retrain.rollout.state_file import require_same_shape as require_same

MARKER = "retrain_state.json"
"""Written last: a checkpoint without it was interrupted while it was saved."""

_KIND = "trl checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        path: Its folder.
        step: Optimizer steps done.
        state: What `complete_checkpoint` put in.
        shape: What of the run must stay the same (`run_shape`).
    """

    path: Path
    step: int
    state: Mapping[str, Any]
    shape: Mapping[str, Any] = field(default_factory=dict)


def complete_checkpoint(trainer: Any, state: Mapping[str, Any]) -> None:
    """Put the data state into the checkpoint that the trainer has just written.

    Every process calls it: each has written a part (its random state, under ZeRO its share of the
    optimizer), and the checkpoint is complete when the last one has.

    Args:
        trainer: The trainer.
        state: What a resume needs besides the trainer's own files; under `shape`, what must stay
            the same.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.args.should_save:
        step = trainer.state.global_step
        path = Path(trainer.args.output_dir) / f"checkpoint-{step}" / MARKER
        content = {name: value for name, value in state.items() if name != "shape"}
        write_state(path, _KIND, State({"step": step, **content}, state.get("shape", {})))


def run_shape(plan: Plan) -> dict[str, Any]:
    """What of a run must stay the same over a resume, or its steps and tasks mean something else.

    The algorithm, the group size, the sizes of batches, the model's structure and how the optimizer
    is cut up; how long it trains may change, and so may the number of processes under DDP.
    """
    hyper = plan.config.algorithm.hyperparameters
    structure = model_structure(plan.config)
    return {
        "algorithm.name": plan.config.algorithm.name,
        "rollout_batch_size": hyper.rollout_batch_size,
        "n_samples_per_prompt": hyper.n_samples_per_prompt,
        "global_batch_size": hyper.global_batch_size,
        "optimizer steps per iteration": plan.sizes["optimizer_steps_per_iteration"],
        "optimizer state": _optimizer_state(plan),
        **{f"model: {name}": value for name, value in structure.items()},
    }


def _optimizer_state(plan: Plan) -> str:
    from backends.trl.launching import sharding_of  # imports torch, which reading needs not

    sharding = sharding_of(plan.arguments, Launch.of())
    processes = plan.sizes["processes"]
    return f"cut up by {sharding} over {processes} processes" if sharding else "whole"


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


def require_same_shape(plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse to resume a run under other sizes; what an older checkpoint does not say is not asked.

    Raises:
        ConfigError: Naming what differs, with both values.
    """
    require_same(checkpoint.path, checkpoint.shape, run_shape(plan))


def newest_checkpoint(output_dir: Path) -> Checkpoint | None:
    """The newest complete checkpoint of a run, or None where there is none.

    Raises:
        DataError: The marker of the newest one is damaged, or of a newer version.
    """
    markers = list(output_dir.glob(f"checkpoint-*/{MARKER}"))
    if not markers:
        return None
    marker = max(markers, key=lambda path: int(path.parent.name.rpartition("-")[2]))
    return read_checkpoint(marker.parent)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a complete checkpoint.

    Args:
        folder: Its folder.

    Raises:
        DataError: Its marker is missing, damaged, or of a newer version.
    """
    remedy = "remove its folder to go on from the checkpoint before it"
    state = read_state(folder / MARKER, _KIND, remedy)
    return Checkpoint(folder, int(state.content["step"]), state.content, state.shape)
