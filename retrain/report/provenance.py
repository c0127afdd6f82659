"""`provenance.jsonl`: who began a run, with what; one line for the beginning and every resume."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrain import __version__
from retrain.errors import ConfigError, DataError
from retrain.report.jsonl import read_lines
from retrain.report.this_machine import installed, machine

PROVENANCE = "provenance.jsonl"

_SET = "--set="

_LATEST = 253_402_300_800
"""The year 10000, in seconds since the epoch: no calendar goes further."""

FORMAT = 1
"""The format of a run folder; a higher one was written by a newer retrain."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """One start of a run.

    Attributes:
        time: When, in seconds since the epoch.
        command: The command line, without credentials; empty where there was none.
        folder: The working directory.
        packages: Versions by distribution, retrain's and Python's among them.
        machine: What it ran on: system, processor, threads, GPUs; as text.
        format: The format of the run folder.
    """

    time: float
    command: tuple[str, ...] = ()
    folder: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def now(cls) -> Beginning:
        """This process, now."""
        return cls(
            time=round(time.time(), 3),
            command=tuple(_typed(sys.argv)),
            folder=os.getcwd(),
            packages={"retrain": __version__, "python": platform.python_version(), **installed()},
            machine=machine(),
        )

    def as_row(self) -> dict[str, Any]:
        """What stands in the file."""
        return {
            "format": self.format,
            "time": self.time,
            "command": list(self.command),
            "folder": self.folder,
            "packages": dict(self.packages),
            "machine": dict(self.machine),
        }


def add_beginning(run_dir: Path) -> None:
    """Append this process's start to a run's file.

    Raises:
        OSError: It cannot be written.
    """
    line = json.dumps(Beginning.now().as_row(), ensure_ascii=True) + "\n"
    with (run_dir / PROVENANCE).open("ab") as file:
        file.write(line.encode())


def read_beginnings(run_dir: Path) -> list[Beginning]:
    """The starts of a run; empty where none was recorded.

    Raises:
        DataError: A line is broken, or was written by a newer retrain.
    """
    path = run_dir / PROVENANCE
    if not path.is_file():
        return []
    try:
        return [
            _beginning(path, line.number, line.value) for line in read_lines(path) if line.value
        ]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _beginning(path: Path, number: int, row: Mapping[str, Any]) -> Beginning:
    found = row.get("format")
    if not isinstance(found, int) or found > FORMAT:
        by = row.get("packages")
        newer = by.get("retrain", "?") if isinstance(by, Mapping) else "?"
        raise DataError(
            f"{path}, line {number}: the run folder has format {found!r:.20} (retrain {newer!s:.20}"
            f"), and this retrain {__version__} reads up to {FORMAT}: pip install -U retrain"
        )
    command, began = row.get("command"), row.get("time")
    return Beginning(
        time=float(began) if isinstance(began, int | float) and 0 <= began < _LATEST else 0.0,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        folder=str(row.get("folder") or ""),
        packages=_texts(row.get("packages")),
        machine=_texts(row.get("machine")),
        format=found,
    )


def _texts(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _typed(argv: Sequence[str]) -> Iterator[str]:
    """A command line as it is typed, its credentials redacted."""
    for position, word in enumerate(argv):
        option = _SET if word.startswith(_SET) else ""
        yield Path(word).name if position == 0 else option + _redacted(word.removeprefix(option))


def _redacted(word: str) -> str:
    """A word without its credentials; `key=value` may hold some within its value, which is YAML."""
    from retrain.config.document import parse
    from retrain.config.redact import REDACTED, is_credential, redact, redact_text

    key, equals, written = word.partition("=")
    if not equals:
        return redact_text(word)
    if is_credential(key):
        return f"{key}={REDACTED}"
    try:
        value = parse(written, word)
    except ConfigError:
        return redact_text(word)
    changed = redact(value, key)
    if isinstance(value, Mapping | list) and changed != value:
        return f"{key}={json.dumps(changed, default=str)}"
    return redact_text(word)
