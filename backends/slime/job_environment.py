"""The environment of a Ray job: what its nodes import, and which variables they see.

A job's description can be read by everybody who reaches the cluster, so no credential stands in it:
they come from the environment that Ray itself was started in.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import retrain
from backends.slime.handover import ENVIRONMENT_VARIABLE, HANDOVER
from retrain.config import RunConfig
from retrain.config.redact import redact
from retrain.errors import ConfigError
from retrain.packages import package_folders

FIXED: Mapping[str, str] = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "NO_PROXY": "127.0.0.1,localhost",
    "PYTHONUNBUFFERED": "1",
    "RAY_DEDUP_LOGS": "0",
}
"""Set for every start: Megatron's overlap needs the first; the others keep engines reachable and
slime's log complete and on time."""


def run_environment(config: RunConfig, run_dir: Path) -> dict[str, str]:
    """The variables that every start of slime sets; `cluster.env_vars` beat ours.

    Args:
        config: The run's configuration.
        run_dir: The run folder.
    """
    handover = {ENVIRONMENT_VARIABLE: str(run_dir.absolute() / HANDOVER)}
    return {**FIXED, **handover, **config.cluster.env_vars}


def job_environment(config: RunConfig, run_dir: Path) -> dict[str, str]:
    """The variables that a Ray job sets: those of every start, and what its nodes import from.

    Args:
        config: The run's configuration.
        run_dir: The run folder.

    Raises:
        ConfigError: A credential stands in `cluster.env_vars`, or slime is nowhere.
    """
    for name, value in config.cluster.env_vars.items():
        if redact({name: value}) != {name: value}:
            raise ConfigError(
                f"cluster.env_vars.{name}: would stand in the job's description, which everybody "
                "on the cluster can read; set it in the environment of `ray start` on every node "
                "(for a private Ray: here) and remove it from the configuration"
            )
    path = os.pathsep.join(python_path(config))
    return {"PYTHONPATH": path, **run_environment(config, run_dir)}


def refuse_credentials(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of the training script that hold a credential.

    Raises:
        ConfigError: Naming the option.
    """
    for name, value in arguments.items():
        if value not in (None, False) and redact({name: value}) != {name: value}:
            raise ConfigError(
                f"algorithm.hyperparameters.slime_{name}: would stand on the job's command line, "
                "which everybody on the cluster can read; give it in the environment instead "
                "(WANDB_API_KEY for --wandb-key)"
            )


def slime_root(config: RunConfig) -> Path:
    """The checkout that holds train.py, as the head node sees it.

    Raises:
        ConfigError: It is neither named nor importable here.
    """
    if config.cluster.slime:
        return Path(config.cluster.slime).expanduser()
    found = _package_root("slime")
    if found is not None and (found / "train.py").is_file():
        return found
    raise ConfigError(
        "cluster.slime: train.py stands in slime's checkout, which is not importable here; name "
        "the folder as the head node sees it (in the container slimerl/slime: /root/slime)"
    )


def python_path(config: RunConfig) -> list[str]:
    """The folders that every node imports from, in order.

    slime stands first, then Megatron-LM, whose `tests` package would hide slime's; installed
    packages are not named, since the nodes have their own.
    """
    megatron = config.cluster.megatron
    folders = [
        str(slime_root(config)),
        str(Path(megatron).expanduser()) if megatron else _package_root("megatron"),
        _own_root(),
        *config.cluster.python_path,
        config.base_dir.absolute(),
        Path.cwd(),
    ]
    return list(dict.fromkeys(str(folder) for folder in folders if folder is not None))


def _package_root(name: str) -> Path | None:
    """The folder that a package is imported from; None where it is installed, or missing."""
    folder = next(iter(package_folders(name)), None)
    root = None if folder is None else folder.resolve().parent
    return None if root is None or _is_site(root) else root


def _own_root() -> Path | None:
    root = Path(retrain.__file__).resolve().parents[1]
    return None if _is_site(root) else root


def _is_site(folder: Path) -> bool:
    paths = sysconfig.get_paths()
    return str(folder) in (paths["purelib"], paths["platlib"])
