"""Loggers by name, and whether what they need is installed."""

from __future__ import annotations

from retrain.errors import MissingDependency
from retrain.loggers.base import MakesLogger
from retrain.packages import package_folders
from retrain.registry import Registry

LOGGERS: Registry[MakesLogger] = Registry("logger", "retrain.loggers")
LOGGERS.add_lazy("tensorboard", "retrain.loggers.tensorboard:TensorBoardLogger")
LOGGERS.add_lazy("trackio", "retrain.loggers.trackio:TrackioLogger")
LOGGERS.add_lazy("wandb", "retrain.loggers.wandb:WandbLogger")

_EXTRAS = ("tensorboard", "trackio", "wandb")
"""Loggers whose package and extra have their name."""


def logger_class(name: str) -> MakesLogger:
    """The class of a logger; what it needs is looked for and not imported.

    Args:
        name: A registered name, an import path or an entry point.

    Raises:
        ConfigError: There is none of that name, or it cannot be imported.
        MissingDependency: Its package is not installed; with the pip command.
    """
    if name in _EXTRAS and not package_folders(name):
        raise MissingDependency(
            f'the logger needs {name}, which is not installed: pip install "retrain[{name}]"'
        )
    return LOGGERS.get(name)
