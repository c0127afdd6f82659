"""Checkpoints: a Hugging Face folder with the optimizer's state and a marker inside.

`checkpoint-STEP/` holds the weights, `optimizer/` (torch.distributed.checkpoint, which cuts it up
anew for another number of processes), `random-RANK.pt` and `retrain_state.json`. It is written
under another name and renamed when it is whole.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from backends.local.checkpoints import MARKER, folder_name
from backends.torch.processes.ranks import Ranks
from backends.torch.saving.checkpoint_state import KIND
from backends.torch.saving.hf_weights import load_weights, write_weights
from retrain.errors import BackendFailure, DataError
from retrain.rollout.state_file import State, write_state

KEPT = 2
"""Checkpoints of a run that are kept."""

_OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Trained:
    """What a checkpoint is made of.

    Attributes:
        model: The policy.
        optimizer: Its optimizer.
        tokenizer: Saved beside the weights; None leaves it out.
        ranks: Who trains together.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    tokenizer: Any = None
    ranks: Ranks = field(default_factory=Ranks)


def save(trained: Trained, root: Path, step: int, state: State) -> Path:
    """Write a checkpoint; every process calls it.

    Args:
        trained: What to save.
        root: The folder of the run's checkpoints.
        step: Optimizer steps done; names the checkpoint.
        state: What stands in its marker besides the step.

    Returns:
        The checkpoint's folder; it is complete.

    Raises:
        BackendFailure: The optimizer's state cannot be written; on every process.
    """
    ranks, folder = trained.ranks, root / folder_name(step)
    partial = root / f".{folder.name}.partial"
    if ranks.first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    ranks.barrier()
    write_weights(trained.model, partial, ranks, trained.tokenizer)
    _save_optimizer(trained, partial / _OPTIMIZER)
    torch.save(_random_state(), partial / f"random-{ranks.rank}.pt")
    ranks.barrier()
    if ranks.first:
        content = {"step": step, "processes": ranks.processes, **state.content}
        write_state(partial / MARKER, KIND, State(content, state.shape))
        _remove(folder)
        os.replace(partial, folder)
        _forget_older(root)
    ranks.barrier()
    return folder


def _save_optimizer(trained: Trained, folder: Path) -> None:
    optimizer = get_optimizer_state_dict(trained.model, trained.optimizer)
    try:
        with _alone():
            state_dict_saver.save({_OPTIMIZER: optimizer}, checkpoint_id=folder)
    except CheckpointException as error:  # no Exception: it would pass every handler
        rank, (failure, _) = next(iter(error.failures.items()))
        reason = str(failure).strip().partition("\n")[0]
        raise BackendFailure(
            f"{folder}: rank {rank} cannot write the optimizer's state ({reason}); look whether "
            "the disk is full, and go on from the checkpoint before this one with --resume"
        ) from error


def load(trained: Trained, folder: Path) -> None:
    """Put a checkpoint's weights, optimizer state and random state into what is trained.

    Raises:
        ConfigError: The weights are of another model.
        DataError: The optimizer's state does not fit, or it or the random state is damaged.
    """
    load_weights(trained.model, folder)
    state = {_OPTIMIZER: get_optimizer_state_dict(trained.model, trained.optimizer)}
    try:
        with _alone():
            state_dict_loader.load(state, checkpoint_id=folder / _OPTIMIZER)
    except (CheckpointException, OSError, ValueError, RuntimeError) as error:
        raise _damaged(folder / _OPTIMIZER, "the optimizer's state", error) from error
    set_optimizer_state_dict(trained.model, trained.optimizer, state[_OPTIMIZER])
    random = folder / f"random-{trained.ranks.rank}.pt"
    if random.is_file():
        try:
            _set_random_state(torch.load(random, weights_only=True))
        except Exception as error:  # what torch.load makes of other bytes has no common class
            raise _damaged(random, "the random state", error) from error


def _damaged(path: Path, what: str, error: BaseException) -> DataError:
    if isinstance(error, CheckpointException):  # says by rank what went wrong
        error = next((failure for failure, _ in error.failures.values()), error)
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return DataError(
        f"{path}: {what} cannot be read ({reason}); remove the checkpoint's folder to go on from "
        "the one before it"
    )


def _random_state() -> dict[str, Any]:
    """Of this process and its own GPU."""
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state(state["cuda"][0])


def _forget_older(root: Path) -> None:
    whole = root.glob(f"{folder_name('*')}/{MARKER}")
    steps = sorted(int(path.parent.name.rpartition("-")[2]) for path in whole)
    for step in steps[:-KEPT]:
        _remove(root / folder_name(step))
    for partial in root.glob(f".{folder_name('*')}.partial"):  # of a run that was killed
        shutil.rmtree(partial, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove a checkpoint, its marker first: half of one must not look complete."""
    (folder / MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _alone() -> Any:
    """Keep torch from saying that one process saves alone."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
