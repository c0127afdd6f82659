"""Reading JSON lines that a killed process may have left with a torn last line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import DataError


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file.

    Attributes:
        number: Its number, from 1.
        raw: Its bytes, without the newline.
        value: The object that it holds; None for a torn line.
    """

    number: int
    raw: bytes
    value: dict[str, Any] | None

    @property
    def torn(self) -> bool:
        """Whether its writer was stopped before the end of the line."""
        return self.value is None


def read_lines(path: Path) -> Iterator[Line]:
    """Read a JSONL file of objects, one line at a time.

    Only the last line may be torn, and only when no newline ends it: a proper prefix of a JSON
    object is never valid JSON, so a torn line cannot pass for a whole one.

    Args:
        path: The file.

    Yields:
        Its lines in order, empty ones left out.

    Raises:
        DataError: A line that is not torn holds something else than a JSON object.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                yield parse_line(path, number, raw)


def ends_torn(path: Path) -> bool:
    """Whether the last byte of a file is something else than a newline."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def parse_line(path: Path, number: int, raw: bytes) -> Line:
    """Read one line, its newline included where it has one.

    Raises:
        DataError: It is not torn and holds something else than a JSON object.
    """
    try:
        value = json.loads(raw)
    except ValueError as error:
        if not raw.endswith(b"\n"):
            return Line(number, raw, None)
        raise DataError(f"{path}, line {number}: not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}, line {number}: expected a JSON object, got {value!r:.80}")
    return Line(number, raw.rstrip(b"\n"), value)
