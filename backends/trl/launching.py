"""What a launch of several processes can and cannot do, with the arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.base import Problem
from backends.trl.vllm_planning import uses_vllm
from bridges import FailureAction
from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.launch import Launch

_HYPER = "algorithm.hyperparameters"
_WHOLE = (
    "the in-process engine generates with the trainer's own weights, and under {} each process "
    "holds a part of them; generate with vLLM, which has a copy of its own and gets the gathered "
    "weights from TRL (trl_use_vllm: true, trl_vllm_mode: server), or launch without sharding (DDP "
    "or ZeRO-2)"
)
_SHARDED = {"fsdp": "FSDP", "zero3": "DeepSpeed ZeRO-3"}


def share_of(key: str, size: int, launch: Launch) -> int:
    """What one process gets of a size that all must share evenly.

    Raises:
        ConfigError: It does not divide; the message shows the arithmetic.
    """
    share, rest = divmod(size, launch.processes)
    if rest or not share:
        raise ConfigError(
            f"{_HYPER}.{key}: {size} does not divide over {launch.processes} processes "
            f"({size} = {launch.processes} x {share} + {rest}); groups must not straddle "
            f"processes, so use a multiple of {launch.processes}, or launch another number"
        )
    return share


def launch_problems(config: RunConfig, options: Mapping[str, Any], launch: Launch) -> list[Problem]:
    """Refuse what several processes cannot honour.

    Args:
        config: The run.
        options: The checked `trl_X` options.
        launch: How this process was launched.
    """
    found: list[Problem] = []
    sharding = sharding_of(options, launch)
    shared = config.algorithm.name != "sft" and not uses_vllm(options)
    if sharding in _SHARDED and shared:
        found.append(Problem("", _WHOLE.format(_SHARDED[sharding])))
    failure = config.rollout.failure.model_dump()
    for name, action in failure.items():
        if action == FailureAction.REFILL and launch.processes > 1:
            key = f"rollout.failure.{name}"
            text = "each process would draw another task, and their orders would part; use mask"
            found.append(Problem(key, f"refill runs in one process only: {text}"))
    return found


def sharding_of(options: Mapping[str, Any], launch: Launch) -> str:
    """What a run is cut up by: "fsdp", "zero" and its stage, or "" for nothing.

    Args:
        options: The trainer's arguments, or the `trl_X` options alone.
        launch: How this process was launched; wins over the options.
    """
    if launch.sharding:
        return launch.sharding
    if options.get("fsdp"):
        return "fsdp"
    deepspeed = options.get("deepspeed")
    if isinstance(deepspeed, str | Path):
        deepspeed = _read(Path(deepspeed))
    zero = deepspeed.get("zero_optimization", {}) if isinstance(deepspeed, Mapping) else {}
    return f"zero{zero['stage']}" if "stage" in zero else ""


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"{_HYPER}.trl_deepspeed: {path} cannot be read ({error})") from error
