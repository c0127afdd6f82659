"""The rows that a metrics file gains while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from retrain.report.jsonl import parse_line
from retrain.report.metrics import MetricRow, metric_row


class NewRows:
    """Reads what is appended to a metrics file, and nothing twice.

    A resume replaces the file by its rows up to the checkpoint; those are known, and kept apart.

    Attributes:
        earlier: The rows that were there at the beginning and still are.
    """

    def __init__(self, path: Path) -> None:
        """Remember what a metrics file holds now.

        Args:
            path: The file; it need not exist yet.

        Raises:
            OSError: It cannot be read.
        """
        self.earlier: list[MetricRow] = []
        self._path = path
        self._old = frozenset(path.read_bytes().split(b"\n") if path.exists() else ())
        self._file: int | None = None
        self._offset = self._lines = 0

    def take(self) -> list[MetricRow]:
        """The whole rows that have come since the last call; the last line may be in writing.

        Raises:
            DataError: A line is no metrics row.
            OSError: The file cannot be read.
        """
        return [] if self._as_it_was() else list(self._appended())

    def _as_it_was(self) -> bool:
        """Whether nothing was appended; a file that took the other's place is read from the top."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return True
        if stat.st_ino != self._file or stat.st_size < self._offset:
            self._file, self._offset, self._lines = stat.st_ino, 0, 0
            self.earlier.clear()
        return stat.st_size == self._offset

    def _appended(self) -> Iterator[MetricRow]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for raw in whole.split(b"\n")[:-1]:
            self._lines += 1
            if not raw.strip():
                continue
            row = metric_row(self._path, parse_line(self._path, self._lines, raw + b"\n"))
            if raw in self._old:
                self.earlier.append(row)
            else:
                yield row
