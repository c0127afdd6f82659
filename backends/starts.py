"""What a run leaves for another one to go on from, whichever backend trained it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from retrain.config import load_config
from retrain.errors import ConfigError, DataError, RunFolderError
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
    start = {"trl": _trl, "slime": _slime}.get(backend, _unknown)(run, backend)
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
    markers = (run / CHECKPOINTS).glob("checkpoint-*/retrain_state.json")
    newest = max(markers, key=lambda path: int(path.parent.name.rpartition("-")[2]), default=None)
    if newest is None:
        return None
    state = _read(newest)
    steps = int(state["shape"]["optimizer steps per iteration"])
    return Start(run, backend, int(state["step"]) // steps, newest.parent, state["data"])


def _slime(run: Path, backend: str) -> Start | None:
    from backends.slime.checkpoints import newest_checkpoint

    newest = newest_checkpoint(run)
    if newest is None:
        return None
    state = _read(newest.data)
    return Start(
        run,
        backend,
        newest.iteration,
        newest.model,
        state["buffer"],
        unfinished=len(state["returned"]),
    )


def _unknown(run: Path, backend: str) -> Start | None:
    raise ConfigError(f"{run}: nobody knows where the backend {backend!r} keeps its data state")


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return state
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it to go on") from error


def _why(folder: Path) -> str:
    return " (an adapter)" if (folder / _ADAPTER).is_file() else ""
