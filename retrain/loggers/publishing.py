"""The loggers of one run, from the configuration."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError, MissingDependency, RunFolderError
from retrain.loggers.base import LoggedRun, MetricsLogger
from retrain.loggers.registry import logger_class
from retrain.loggers.thread import LoggerThread
from retrain.report.atomic import replace_bytes
from retrain.report.metrics import MetricRow
from retrain.report.run_folder import METRICS, append_event

if TYPE_CHECKING:
    from retrain.config import RunConfig

IDENTITY = Path("state") / "logged.json"
"""Under which name the loggers know the run; a resume goes on under the same one."""

CLOSING_SECONDS = 60.0
"""How long all loggers together may take to end."""

Note = Callable[[str], None]

_ID = re.compile("[0-9a-f]{8}")


def require_loggers(config: RunConfig) -> None:
    """Look for what the loggers need, before a run begins.

    Raises:
        ConfigError: A logger cannot be imported; with its key.
        MissingDependency: A package is not installed; with the key and the pip command.
    """
    for name in config.loggers.chosen():
        try:
            logger_class(name)
        except MissingDependency as error:
            raise MissingDependency(f"loggers.{name}: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"loggers.custom: {error}") from error


@contextmanager
def publishing(config: RunConfig, note: Note, *, resume: bool) -> Iterator[None]:
    """Let the configured loggers follow the run that the block trains.

    Args:
        config: The run's configuration.
        note: Shows a message, in any thread.
        resume: Whether the run goes on with the one that the folder holds.
    """
    note = partial(_noted, config.output_dir, note)
    opening = _Opening(config, resume, note)
    metrics = config.output_dir / METRICS
    threads = [
        LoggerThread(name, metrics, partial(opening, name, settings), note)
        for name, settings in config.loggers.chosen().items()
    ]
    for thread in threads:
        thread.start()
    ended_well = False
    try:
        yield
        ended_well = True
    finally:
        for thread in threads:
            thread.end(ended_well=ended_well)
        until = time.monotonic() + CLOSING_SECONDS
        for thread in threads:
            thread.wait(max(0.0, until - time.monotonic()))


def _noted(run_dir: Path, note: Note, text: str) -> None:
    """Show a message, and keep it in the run's events.log where that can be written."""
    note(text)
    with suppress(RunFolderError):
        append_event(run_dir, text)


class _Opening:
    """Makes the loggers of a run, all under one identity, once its folder is there."""

    def __init__(self, config: RunConfig, resume: bool, note: Note) -> None:
        self._config = config
        self._note = note
        self._file = config.output_dir / IDENTITY
        self._known = _kept(self._file) if resume else None
        self._lock = threading.Lock()

    def __call__(
        self, name: str, settings: Mapping[str, Any], earlier: Sequence[MetricRow]
    ) -> MetricsLogger:
        from retrain.config import redact

        identity, resumed = self._introduce(name)
        run = LoggedRun(
            id=identity,
            path=self._config.output_dir.absolute(),
            name=self._config.title,
            group=self._config.experiment_name,
            config=redact(self._config.model_dump(mode="json")),
            resumed=resumed,
            earlier=tuple(earlier),
            note=self._note,
        )
        return logger_class(name)(run, **settings)

    def _introduce(self, name: str) -> tuple[str, bool]:
        """The run's id, and whether this logger has had rows of it before."""
        with self._lock:
            known = self._known or _Identity(secrets.token_hex(4), frozenset())
            self._known = _Identity(known.id, known.loggers | {name})
            row = {"id": known.id, "loggers": sorted(self._known.loggers)}
            replace_bytes(self._file, (json.dumps(row) + "\n").encode())
            return known.id, name in known.loggers


@dataclass(frozen=True, slots=True)
class _Identity:
    """The run's id, and the loggers that have had rows of it."""

    id: str
    loggers: frozenset[str]


def _kept(path: Path) -> _Identity | None:
    """The identity of the run that is resumed; None where it had no loggers."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        found = _Identity(str(row["id"]), frozenset(map(str, row["loggers"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if _ID.fullmatch(found.id) else None
