"""The executor that a configuration describes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from retrain.environment.registry import ENVIRONMENTS, EnvironmentFactory
from retrain.errors import ConfigError
from retrain.registry import load_object
from retrain.rollout.executors.base import Executor, LocalExecutor, Origin
from retrain.rollout.executors.crew import CrewSettings
from retrain.rollout.executors.link import Launcher
from retrain.rollout.executors.pool import WorkerPool

if TYPE_CHECKING:
    from retrain.config import RunConfig
    from retrain.config.rollout import ExecutorConfig

_GRACE_SECONDS = 10.0
"""How long a call that was broken off may take to let go, where a step may take longer."""


def make_executor(config: RunConfig, factory: EnvironmentFactory, *, worlds: bool) -> Executor:
    """Make what `rollout.executor` names; nothing is started before the first episode.

    Args:
        config: One stage's configuration.
        factory: Makes environments in this process.
        worlds: Whether reward functions may read an environment's attributes after the episode.

    Raises:
        ConfigError: A worker could not import the environment.
    """
    section = config.rollout.executor
    if section.type == "local":
        return LocalExecutor(factory)
    environment = config.environment
    settings = CrewSettings(
        workers=section.workers,
        episodes_per_worker=section.episodes_per_worker,
        max_restarts=section.max_restarts,
        grace=min(_GRACE_SECONDS, config.rollout.step_timeout),
    )
    return WorkerPool(
        _launcher(section),
        make_origin(environment.type, environment.env_specific_config),
        settings,
        factory,
        worlds=worlds,
    )


def make_origin(type: str, config: Mapping[str, Any]) -> Origin:
    """What a worker is told of an environment.

    A name that only this process has registered goes as the import path of what it stands for.

    Args:
        type: As `environment.type`.
        config: As `environment.env_specific_config`.

    Raises:
        ConfigError: It is defined in the script that runs, which a worker cannot import.
    """
    constructor = ENVIRONMENTS.get(type)
    module = getattr(constructor, "__module__", None)
    path = f"{module}:{getattr(constructor, '__qualname__', '')}"
    if module == "__main__":
        raise ConfigError(
            f"environment.type: {type!r} is defined in the script that runs, which a worker cannot "
            "import; move it into a module and name it package.module:Class, or set "
            "rollout.executor: local"
        )
    importable = ":" in type or not _names(path, constructor)
    return Origin(type if importable else path, dict(config), tuple(sys.path))


def _names(path: str, constructor: object) -> bool:
    """Whether importing a path gives this very object."""
    try:
        return load_object(path, "environment") is constructor
    except (ConfigError, ImportError):
        return False


def _launcher(section: ExecutorConfig) -> Launcher:
    if section.type == "process":
        from retrain.rollout.executors.process import ProcessLauncher

        return ProcessLauncher()
    from retrain.rollout.executors.ray_actors import ActorOptions, RayLauncher

    options = ActorOptions(section.cpus, section.resources, section.episodes_per_worker)
    return RayLauncher(options, address=section.address, workers=section.workers)
