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
from backends.torch.checkpoint_state import KIND
from backends.torch.hf_weights import load_weights, write_weights
from backends.torch.ranks import Ranks
from retrain.errors import DataError
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
    """
    ranks, folder = trained.ranks, root / folder_name(step)
    partial = root / f".{folder.name}.partial"
    if ranks.first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    ranks.barrier()
    write_weights(trained.model, partial, ranks, trained.tokenizer)
    optimizer = get_optimizer_state_dict(trained.model, trained.optimizer)
    with _alone():
        state_dict_saver.save({_OPTIMIZER: optimizer}, checkpoint_id=partial / _OPTIMIZER)
    torch.save(_random_state(), partial / f"random-{ranks.rank}.pt")
    ranks.barrier()
    if ranks.first:
        write_state(partial / MARKER, KIND, State({"step": step, **state.content}, state.shape))
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
        _forget_older(root)
    ranks.barrier()
    return folder


def load(trained: Trained, folder: Path) -> None:
    """Put a checkpoint's weights, optimizer state and random state into what is trained.

    Raises:
        ConfigError: The weights are of another model.
        DataError: The optimizer's state does not fit, or is damaged.
    """
    load_weights(trained.model, folder)
    state = {_OPTIMIZER: get_optimizer_state_dict(trained.model, trained.optimizer)}
    try:
        with _alone():
            state_dict_loader.load(state, checkpoint_id=folder / _OPTIMIZER)
    except (CheckpointException, OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"{folder / _OPTIMIZER}: the optimizer's state cannot be read ({reason}); remove "
            "the checkpoint's folder to go on from the one before it"
        ) from error
    set_optimizer_state_dict(trained.model, trained.optimizer, state[_OPTIMIZER])
    random = folder / f"random-{trained.ranks.rank}.pt"
    if random.is_file():
        _set_random_state(torch.load(random, weights_only=True))


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


def _forget_older(root: Path) -> None:
    steps = sorted(int(path.parent.name.rpartition("-")[2]) for path in root.glob(f"*/{MARKER}"))
    for step in steps[:-KEPT]:
        shutil.rmtree(root / folder_name(step), ignore_errors=True)


def _alone() -> Any:
    """Keep torch from saying that one process saves alone."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
