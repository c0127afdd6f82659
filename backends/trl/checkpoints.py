"""Checkpoints of the TRL backend: on generation boundaries, with the data state inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Plan
from retrain.errors import ConfigError, DataError
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


def run_shape(plan: Plan) -> dict[str, Any]:
    """What of a run must stay the same over a resume, or its steps and tasks mean something else.

    The algorithm, the group size and the sizes of batches; how long it trains may change.
    """
    hyper = plan.config.algorithm.hyperparameters
    return {
        "algorithm.name": plan.config.algorithm.name,
        "rollout_batch_size": hyper.rollout_batch_size,
        "n_samples_per_prompt": hyper.n_samples_per_prompt,
        "global_batch_size": hyper.global_batch_size,
        "optimizer steps per iteration": plan.sizes["optimizer_steps_per_iteration"],
    }


def require_same_shape(plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse to resume a run under other sizes.

    Raises:
        ConfigError: Naming what differs, with both values.
    """
    saved, now = checkpoint.state.get("shape", {}), run_shape(plan)
    differing = [name for name in now if saved.get(name) != now[name]]
    if differing:
        lines = [f"  {name}: {saved.get(name)!r} then, {now[name]!r} now" for name in differing]
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
