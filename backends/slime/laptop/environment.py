"""The environment of a laptop run's processes: what they import, and what they are told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from backends.slime.handover import ENVIRONMENT_VARIABLE
from backends.slime.job_environment import python_path
from backends.slime.laptop.checkouts import Checkouts
from backends.slime.launch_spec import SlimeLaunch

SITE = Path(__file__).resolve().parent / "site"
"""First on PYTHONPATH; brings the hooks into every process."""

_TOLD = {
    "CUDA_VISIBLE_DEVICES": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "SLIME_ACCELERATOR": "cpu",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHDYNAMO_DISABLE": "1",
}
"""Ray finds the GPU that it is told of; torch's compiler stays out, for what it is to compile are
kernels for one."""


def marks_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the processes of one laptop run are known from all others.

    Args:
        environment: What the run's processes are told of the run.
    """
    mark = {ENVIRONMENT_VARIABLE: environment[ENVIRONMENT_VARIABLE]}
    return {**mark, "SLIME_ACCELERATOR": _TOLD["SLIME_ACCELERATOR"]}


def laptop_environment(launch: SlimeLaunch, checkouts: Checkouts) -> dict[str, str]:
    """Variables for slime's script, which Ray hands on to its workers.

    Args:
        launch: The run.
        checkouts: Where slime and Megatron-LM are.
    """
    cluster = launch.config.cluster.model_copy(
        update={"slime": str(checkouts.slime), "megatron": str(checkouts.megatron)}
    )
    config = launch.config.model_copy(update={"cluster": cluster})
    path = os.pathsep.join((str(SITE), *python_path(config)))
    return {**_TOLD, **launch.env, "PYTHONPATH": path}
