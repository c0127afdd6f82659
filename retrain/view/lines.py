"""Lines of a samples file by their place, so that one can be read again without the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from retrain.errors import DataError

LARGEST_LINE = 512 * 1024**2
"""Bytes of a line that is read; a longer one is named and left out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands in its file.

    Attributes:
        number: Its number, from 1.
        offset: Bytes before it.
        size: Its bytes, the newline included.
    """

    number: int
    offset: int
    size: int


class BrokenLine(ValueError):
    """A line that holds no sample; the message says why, without naming file and line."""


def read_places(path: Path) -> Iterator[tuple[Place, bytes]]:
    """Every line of a file that is not blank, with its place.

    Raises:
        OSError: The file cannot be read.
    """
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                yield Place(number, offset, len(raw)), raw
            offset += len(raw)


def parse_line(raw: bytes) -> Mapping[str, Any]:
    """The JSON object of a line.

    Raises:
        BrokenLine: It holds something else.
    """
    if len(raw) > LARGEST_LINE:
        raise BrokenLine(f"has {len(raw)} bytes, at most {LARGEST_LINE} are read")
    try:
        value = from_json(raw, cache_strings="keys")
    except ValueError as error:
        torn = "" if raw.endswith(b"\n") else "half-written: "
        raise BrokenLine(f"{torn}not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise BrokenLine(f"expected a JSON object, got {type(value).__name__}")
    return value


def reread(path: Path, place: Place) -> Mapping[str, Any]:
    """Read one line again.

    Raises:
        DataError: The file is gone, or holds something else there now.
    """
    try:
        with path.open("rb") as file:
            file.seek(place.offset)
            return parse_line(file.read(place.size))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except BrokenLine as error:
        raise DataError(
            f"{path}, line {place.number}: {error}; the file was replaced, load the page again"
        ) from error
