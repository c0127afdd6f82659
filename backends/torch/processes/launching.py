"""What a launch of several processes can and cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.base import Problem
from backends.torch.options import TorchOptions
from retrain.config import RunConfig
from retrain.launch import Launch
from retrain.report.run_folder import STATE

IN_PROCESS = "transformers"
"""The engine that writes with the weights that are trained."""

WEIGHTS = Path(STATE) / "weights"
"""Folder of a run that servers load the newest weights from."""

_WITHOUT = "or remove the key: LoRA on weights that are not quantised"
NOT_QUANTISED = (
    f"the packed weights of bitsandbytes are not cut up over processes; launch one, {_WITHOUT}"
)
"""Why QLoRA is not trained in several processes, and what to do."""


def engine_name(config: RunConfig) -> str:
    """The name of the engine that writes the rollouts."""
    engine = config.rollout.engine
    return engine if isinstance(engine, str) else str(engine.get("name"))


def sharding_arguments(options: TorchOptions, launch: Launch) -> dict[str, Any]:
    """How a plan's model is cut up."""
    return {
        "sharding": "fully_shard" if launch.processes > 1 else None,
        "reshard_after_forward": options.reshard_after_forward,
        "timeout": options.timeout,
    }


def launch_problems(config: RunConfig, launch: Launch) -> list[Problem]:
    """Refuse what several processes, or servers, cannot have.

    Args:
        config: The run.
        launch: How this process was launched.
    """
    several, peft = launch.processes > 1, config.model.peft
    servers = config.algorithm.name != "sft" and engine_name(config) != IN_PROCESS
    quantised = peft is not None and peft.bits is not None
    refused = (
        (
            several and config.algorithm.name != "sft" and not servers,
            "rollout.engine",
            _whole_weights(config, launch.processes),
        ),
        (
            several and quantised,
            "model.peft.bits",
            NOT_QUANTISED,
        ),
        (
            servers and quantised,
            "model.peft.bits",
            "servers get the adapter merged into whole weights, and there are only quantised ones; "
            f"use rollout.engine: {IN_PROCESS}, {_WITHOUT}",
        ),
    )
    return [Problem(key, message) for wrong, key, message in refused if wrong]


def _whole_weights(config: RunConfig, processes: int) -> str:
    weights = config.output_dir / WEIGHTS
    return (
        f"{IN_PROCESS} writes with the very weights that are trained, and of {processes} processes "
        f"each holds 1/{processes} of them. Start a server that gets whole ones (retrain serve "
        f"{config.model.name_or_path} --port 30000 --weights-dir {weights}, or SGLang) and set "
        "rollout.engine: {name: sglang, urls: [http://127.0.0.1:30000]}; or launch one process"
    )
