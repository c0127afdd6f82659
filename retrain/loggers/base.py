"""What a logger is, and what it is told about the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from retrain.errors import RetrainError
from retrain.report.metrics import MetricRow


class LoggerFailure(RetrainError, RuntimeError):
    """A logger raised: it is left behind, and the run goes on."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A run, as its loggers see it.

    Attributes:
        id: Eight characters that stay the same when the run is resumed.
        path: The run folder; files of a logger's own go into a folder of it.
        name: The experiment's name, with the stage's.
        group: The experiment's name.
        config: The resolved configuration, credentials redacted.
        resumed: Whether this logger has had rows of the run before, which `earlier` repeats.
        earlier: The rows that the run had before it was resumed.
        note: Shows a message.
    """

    id: str
    path: Path
    name: str
    group: str
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    resumed: bool = False
    earlier: tuple[MetricRow, ...] = ()
    note: Callable[[str], None] = print


class MetricsLogger(Protocol):
    """Takes the rows of a run, in the order in which they are written; all in one thread.

    A logger is made by its class, `LoggerClass(run, **settings)`, when the first row is there.
    Whatever it raises is shown once, and ends this logger alone.
    """

    def write(self, row: MetricRow) -> None:
        """Take one row; an iteration may have several, with different names."""
        ...

    def close(self, *, ended_well: bool) -> None:
        """End: everything written must be on its way when this returns.

        Args:
            ended_well: False where the run failed.
        """
        ...


class MakesLogger(Protocol):
    """A logger's class."""

    def __call__(self, run: LoggedRun, **settings: Any) -> MetricsLogger:
        """Begin or go on.

        Args:
            run: The run.
            **settings: The logger's own, from the configuration.
        """
        ...


def finite(row: MetricRow) -> dict[str, float]:
    """The values of a row without those that were not finite."""
    return {name: value for name, value in row.values.items() if value is not None}
