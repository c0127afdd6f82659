"""Checkpoints of the TRL backend: on generation boundaries, with the data state inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.base import Plan
from backends.local import checkpoints
from backends.local.checkpoints import MARKER, Checkpoint, folder_name
from retrain.launch import Launch
from retrain.rollout.state_file import State, write_state
from retrain.rollout.state_file import require_same_shape as require_same

_KIND = "trl checkpoint"


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
        path = Path(trainer.args.output_dir) / folder_name(step) / MARKER
        content = {name: value for name, value in state.items() if name != "shape"}
        write_state(path, _KIND, State({"step": step, **content}, state.get("shape", {})))


def run_shape(plan: Plan) -> dict[str, Any]:
    """What of a run must stay the same over a resume, or its steps and tasks mean something else.

    Besides `backends.local.checkpoints.run_shape` how the optimizer is cut up; the number of
    processes may change under DDP.
    """
    return {**checkpoints.run_shape(plan), "optimizer state": _optimizer_state(plan)}


def _optimizer_state(plan: Plan) -> str:
    from backends.trl.launching import sharding_of  # imports torch, which reading needs not

    sharding = sharding_of(plan.arguments, Launch.of())
    processes = plan.sizes["processes"]
    return f"cut up by {sharding} over {processes} processes" if sharding else "whole"


def require_same_shape(plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse to resume a run under other sizes; what an older checkpoint does not say is not asked.

    Raises:
        ConfigError: Naming what differs, with both values.
    """
    require_same(checkpoint.path, checkpoint.shape, run_shape(plan))


def newest_checkpoint(output_dir: Path) -> Checkpoint | None:
    """See `backends.local.checkpoints.newest_checkpoint`."""
    return checkpoints.newest_checkpoint(output_dir, _KIND)


def read_checkpoint(folder: Path) -> Checkpoint:
    """See `backends.local.checkpoints.read_checkpoint`."""
    return checkpoints.read_checkpoint(folder, _KIND)
