"""Moving aside what a run recorded after the checkpoint that it resumes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from retrain.errors import RunFolderError
from retrain.report.atomic import replace_bytes, sync_folder
from retrain.report.jsonl import Line, ends_torn, read_lines
from retrain.report.metrics import iteration_of

SUPERSEDED = "superseded"
_ITERATION_FILE = re.compile(r"(?:.+-)?(\d+)\.jsonl")


def move_aside(folder: Path, metrics: str, parts: Sequence[str], iteration: int) -> Path | None:
    """Move the rows and files of later iterations, and a torn last line, aside.

    A copy of what goes is on disk before anything is taken away, so a process killed in between
    leaves rows in two places at worst, and the next call completes the move.

    Args:
        folder: The run folder.
        metrics: Name of the metrics file in it.
        parts: Names of the folders in it that hold files of iterations, `ITERATION.jsonl` or
            `SPLIT-ITERATION.jsonl`.
        iteration: The last iteration that stays.

    Returns:
        The folder made for what moved; None where nothing did.

    Raises:
        DataError: A line of the metrics file is no metrics row.
        RunFolderError: The folder cannot be written.
    """
    try:
        kept, gone = _split(folder / metrics, iteration)
        files = {part: sorted(_later(folder / part, iteration)) for part in parts}
        if not gone and not any(files.values()):
            _end_with_newline(folder / metrics, kept)
            return None
        aside = _next_folder(folder / SUPERSEDED)
        if gone:
            replace_bytes(aside / metrics, b"\n".join(gone))
            replace_bytes(folder / metrics, _joined(kept))
        for part, later in files.items():
            _move(later, aside / part)
    except OSError as error:
        if isinstance(error, RunFolderError):
            raise
        where = error.filename or folder
        raise RunFolderError(f"{where}: cannot be moved aside: {error.strerror}") from error
    return aside


def _split(path: Path, iteration: int) -> tuple[list[bytes], list[bytes]]:
    kept: list[bytes] = []
    gone: list[bytes] = []
    if path.exists():
        for line in read_lines(path):
            (kept if _stays(path, line, iteration) else gone).append(line.raw)
    return kept, gone


def _stays(path: Path, line: Line, iteration: int) -> bool:
    return not line.torn and iteration_of(path, line) <= iteration


def _later(folder: Path, iteration: int) -> Iterator[Path]:
    if folder.is_dir():
        for path in folder.iterdir():
            match = _ITERATION_FILE.fullmatch(path.name)
            if match and int(match[1]) > iteration:
                yield path


def _end_with_newline(path: Path, lines: list[bytes]) -> None:
    """Complete a last line that lacks nothing but its newline."""
    if path.exists() and ends_torn(path):
        replace_bytes(path, _joined(lines))


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _next_folder(parent: Path) -> Path:
    parent.mkdir(exist_ok=True)
    taken = [int(path.name) for path in parent.iterdir() if path.name.isdigit()]
    folder = parent / f"{max(taken, default=0) + 1:03d}"
    folder.mkdir()
    sync_folder(parent)
    return folder


def _move(files: list[Path], target: Path) -> None:
    if not files:
        return
    target.mkdir()
    for path in files:
        os.rename(path, target / path.name)
    sync_folder(target)
    sync_folder(target.parent)
