"""What a run leaves for another one to go on from, whichever backend trained it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrain.config import load_config
from retrain.errors import ConfigError, RunFolderError
from retrain.report.run_folder import CHECKPOINTS, CONFIG
from retrain.report.start import Start

_ADAPTER = "adapter_config.json"


def find_start(run: Path) -> Start:
    """The newest complete checkpoint of a run, as the start of another one.

    Args:
        run: A run folder; of a run with stages, a stage's.

    Raises:
        RunFolderError: There is no run, or no checkpoint with its place in the data.
        ConfigError: Its backend, or its weights, cannot be gone on from.
    """
    if not (run / CONFIG).is_file():
        raise RunFolderError(f"{run}: holds no run (no {CONFIG}); name a run's output_dir")
    config = load_config(run / CONFIG)
    if config.algorithm.name == "sft":
        raise ConfigError(
            f"{run}: an sft run has no place in the tasks; start from its weights alone: "
            f"--set model.name_or_path={run / 'model'}"
        )
    backend = config.algorithm.backend
    start = {"trl": _trl, "torch": _torch, "slime": _slime}.get(backend, _unknown)(run, backend)
    if start is None:
        raise RunFolderError(
            f"{run}: holds no complete checkpoint, with which the place in the data is saved; "
            "train with save_interval, or start from its weights alone with "
            f"--set model.name_or_path={run / 'model'} (the data then begin anew)"
        )
    if not (start.model_dir / "config.json").is_file():
        raise ConfigError(
            f"{start.model_dir}: holds no whole model{_why(start.model_dir)}; write one with "
            f"`retrain export {run} MODEL` and start from it with --set model.name_or_path=MODEL "
            "(the data then begin anew)"
        )
    return start


def _trl(run: Path, backend: str) -> Start | None:
    from backends.trl.checkpoints import newest_checkpoint

    newest = newest_checkpoint(run / CHECKPOINTS)
    if newest is None:
        return None
    steps = int(newest.shape["optimizer steps per iteration"])
    state = newest.state
    iteration, left = newest.step // steps, _unfinished(state.get("rollout"))
    return Start(run, backend, iteration, newest.path, state["data"], unfinished=left)


def _torch(run: Path, backend: str) -> Start | None:
    from backends.torch.saving.checkpoint_state import newest_checkpoint

    newest = newest_checkpoint(run / CHECKPOINTS)
    if newest is None:
        return None
    state = newest.state
    left = _unfinished(state.get("rollout"))
    return Start(run, backend, int(state["iteration"]), newest.path, state["data"], unfinished=left)


def _slime(run: Path, backend: str) -> Start | None:
    from backends.slime.checkpoints import newest_checkpoint, read_data

    newest = newest_checkpoint(run)
    if newest is None:
        return None
    state = read_data(newest.data).content
    return Start(
        run,
        backend,
        newest.iteration,
        newest.model,
        state["buffer"],
        unfinished=len(state["returned"]) + _unfinished(state.get("rollout")),
    )


def _unfinished(rollout: Mapping[str, Any] | None) -> int:
    """How many groups a `RolloutManager` had drawn that no batch has had."""
    return 0 if rollout is None else len(rollout["pending"]) + len(rollout["finished"])


def _unknown(run: Path, backend: str) -> Start | None:
    raise ConfigError(f"{run}: nobody knows where the backend {backend!r} keeps its data state")


def _why(folder: Path) -> str:
    return " (an adapter)" if (folder / _ADAPTER).is_file() else ""
