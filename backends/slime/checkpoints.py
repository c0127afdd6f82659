"""Checkpoints of the slime backend: slime's weights and optimizer, and our place in the data.

checkpoints/slime/   what `--save` writes: iter_0000004/ of rollout 4, and the file that names the
                     newest one, which Megatron writes last
checkpoints/hf/4/    what `--save-hf` writes after it, its index last
state/data-4.json    the place in the data after rollout 4, which slime asks for last

slime counts rollouts from 0; iteration N of a run is rollout N - 1.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Plan
from retrain.config import RunConfig, load_config
from retrain.report.atomic import replace_bytes
from retrain.report.result import RESULT
from retrain.report.run_folder import CHECKPOINTS, CONFIG, STATE
from retrain.rollout.state_file import State, read_state, write_state
from retrain.rollout.state_file import require_same_shape as require_same

SLIME, HF = f"{CHECKPOINTS}/slime", f"{CHECKPOINTS}/hf"
"""Where `--save` and `--save-hf` write, in a run folder."""

TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file that names the newest whole checkpoint."""

HF_INDEX = "model.safetensors.index.json"
"""What slime writes last into a folder of Hugging Face weights."""

_ITERATION = re.compile(r"iter_(\d{7,})")
_DATA = re.compile(r"data-(\d+)\.json")
_DATA_KIND = "slime data state"


@dataclass(frozen=True, slots=True)
class SlimeCheckpoint:
    """A complete checkpoint.

    Attributes:
        rollout: The rollout that it was saved after, from 0.
        weights: slime's own folder of it.
        model: Its Hugging Face weights.
        data: The file with the place in the data.
    """

    rollout: int
    weights: Path
    model: Path
    data: Path

    @property
    def iteration(self) -> int:
        """The iteration that it was saved after, from 1."""
        return self.rollout + 1


def newest_checkpoint(run: Path) -> SlimeCheckpoint | None:
    """The newest checkpoint that holds weights, Hugging Face weights and the place in the data.

    Args:
        run: The run folder.

    Returns:
        None where there is none; a process that was killed while it saved leaves incomplete ones.

    Raises:
        DataError: The file with the newest one's place in the data is damaged.
    """
    named = _named(run)
    if named is None:
        return None
    complete = (_checkpoint(run, rollout) for rollout in sorted(_saved(run), reverse=True))
    return next((found for found in complete if found and found.rollout <= named), None)


def unconverted(run: Path) -> Path | None:
    """Slime's newest whole folder of weights, whether Hugging Face weights stand beside it or not.

    Args:
        run: The run folder.
    """
    named = _named(run)
    folder = None if named is None else run / SLIME / f"iter_{named:07d}"
    return folder if folder is not None and folder.is_dir() else None


def go_back(run: Path, checkpoint: SlimeCheckpoint | None) -> Path | None:
    """Make a checkpoint the newest one: what was saved after it moves aside, and nothing is lost.

    Args:
        run: The run folder, held by this process.
        checkpoint: Where to go on from; None begins again.

    Returns:
        The folder that holds what moved; None where nothing did.
    """
    (run / RESULT).unlink(missing_ok=True)
    last = -1 if checkpoint is None else checkpoint.rollout
    later = [path for path, rollout in _parts(run) if rollout > last]
    aside = None
    if later:
        aside = _aside(run)
        for path in later:
            target = aside / path.relative_to(run)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    tracker = run / SLIME / TRACKER
    if checkpoint is not None:
        replace_bytes(tracker, str(last).encode())
    else:
        tracker.unlink(missing_ok=True)
    return aside


def require_same_shape(plan: Plan, run: Path) -> None:
    """Refuse to resume a run under other sizes, where its rollouts and tasks mean something else.

    Raises:
        ConfigError: Naming what differs, with both values.
    """
    require_same(run, run_shape(load_config(run / CONFIG)), run_shape(plan.config))


def run_shape(config: RunConfig) -> dict[str, Any]:
    """What of a run must stay the same over a resume, or its rollouts mean something else."""
    hyper = config.algorithm.hyperparameters
    return {
        "algorithm.name": config.algorithm.name,
        "algorithm.backend": config.algorithm.backend,
        "rollout.owner": config.rollout.owner,
        "rollout_batch_size": hyper.rollout_batch_size,
        "n_samples_per_prompt": hyper.n_samples_per_prompt,
        "global_batch_size": hyper.global_batch_size,
    }


def data_path(run: Path, rollout: int) -> Path:
    """The file with the place in the data after a rollout."""
    return run / STATE / f"data-{rollout}.json"


def write_data(path: Path, content: Mapping[str, Any], config: RunConfig) -> None:
    """Write the place in the data."""
    write_state(path, _DATA_KIND, State(content, run_shape(config)))


def read_data(path: Path) -> State:
    """Read the place in the data.

    Raises:
        DataError: The file is damaged, or of a newer version.
    """
    return read_state(path, _DATA_KIND, "remove it to go on from the checkpoint before it")


def _named(run: Path) -> int | None:
    """The rollout that Megatron's file names."""
    try:
        return int((run / SLIME / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _saved(run: Path) -> Iterator[int]:
    for path in (run / SLIME).glob("iter_*"):
        if match := _ITERATION.fullmatch(path.name):
            yield int(match[1])


def _checkpoint(run: Path, rollout: int) -> SlimeCheckpoint | None:
    found = SlimeCheckpoint(
        rollout=rollout,
        weights=run / SLIME / f"iter_{rollout:07d}",
        model=run / HF / str(rollout),
        data=data_path(run, rollout),
    )
    if not (_is_json(found.model / HF_INDEX) and found.data.exists()):
        return None
    read_data(found.data)
    return found


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _parts(run: Path) -> Iterator[tuple[Path, int]]:
    """Everything that a checkpoint consists of, with its rollout."""
    for rollout in list(_saved(run)):
        yield run / SLIME / f"iter_{rollout:07d}", rollout
    for path in (run / HF).glob("*"):
        if path.name.isdigit():
            yield path, int(path.name)
    for path in (run / STATE).glob("data-*.json"):
        if match := _DATA.fullmatch(path.name):
            yield path, int(match[1])


def _aside(run: Path) -> Path:
    parent = run / "superseded"
    parent.mkdir(exist_ok=True)
    taken = len(list(parent.glob("checkpoints-*")))
    folder = parent / f"checkpoints-{taken + 1:03d}"
    folder.mkdir()
    return folder
