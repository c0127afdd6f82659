"""Checkpoints of the TRL backend: on generation boundaries, with the data state inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Plan
from backends.trl.launching import sharding_of
from retrain.config import RunConfig
from retrain.errors import ConfigError, DataError
from retrain.launch import Launch
from retrain.model_files import model_structure, structure_difference, vocabulary_difference
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


def complete_checkpoint(trainer: Any, state: Mapping[str, Any]) -> None:
    """Put the data state into the checkpoint that the trainer has just written.

    Every process calls it: each has written a part (its random state, under ZeRO its share of the
    optimizer), and the checkpoint is complete when the last one has.

    Args:
        trainer: The trainer.
        state: What a resume needs besides the trainer's own files.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.args.should_save:
        step = trainer.state.global_step
        path = Path(trainer.args.output_dir) / f"checkpoint-{step}" / MARKER
        text = json.dumps({"step": step, **state}, indent=2) + "\n"
        replace_bytes(path, text.encode())


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
    sharding = sharding_of(plan.arguments, Launch.of())
    processes = plan.sizes["processes"]
    return f"cut up by {sharding} over {processes} processes" if sharding else "whole"


def require_same_model(config: RunConfig, checkpoint: Checkpoint) -> None:
    """Refuse to resume with another model than the checkpoint's.

    Raises:
        ConfigError: Naming both, and what differs.
    """
    shape = checkpoint.state.get("shape", {})
    theirs = {
        name.removeprefix("model: "): value
        for name, value in shape.items()
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
    saved, now = checkpoint.state.get("shape", {}), run_shape(plan)
    differing = [name for name in now if name in saved and saved[name] != now[name]]
    if differing:
        lines = [f"  {name}: {saved[name]!r} then, {now[name]!r} now" for name in differing]
        raise ConfigError(
            f"{checkpoint.path}: was saved by a run of another shape; resume with the same "
            "settings, or start a new run\n" + "\n".join(lines)
        )


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
