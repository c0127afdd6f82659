"""Following `metrics.jsonl` while a run writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from retrain.errors import DataError
from retrain.report.jsonl import parse_line
from retrain.report.metrics import MetricRow, metric_row


@dataclass(slots=True)
class MetricsTail:
    """The rows of a metrics file so far.

    Attributes:
        path: The file; it need not exist yet.
        rows: The rows read, in the order written.
        problems: Lines that are no metrics row, with their numbers.
    """

    path: Path
    rows: list[MetricRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _offset: int = 0
    _line: int = 0
    _file: int = 0

    def read(self) -> bool:
        """Read what was appended; a line that is not ended yet is left for the next time.

        A file that was replaced or cut, as a resume does it, is read again from its beginning.

        Returns:
            Whether `rows` or `problems` changed.
        """
        try:
            with self.path.open("rb") as file:
                status = self.path.stat()
                replaced = status.st_ino != self._file or status.st_size < self._offset
                if replaced:
                    self._restart(status.st_ino)
                file.seek(self._offset)
                found = file.read()
        except OSError:
            return False
        whole_lines = found[: found.rfind(b"\n") + 1]
        for raw in whole_lines.splitlines(keepends=True):
            self._line += 1
            self._take(raw)
        self._offset += len(whole_lines)
        return replaced or bool(whole_lines)

    def _restart(self, file: int) -> None:
        self.rows, self.problems = [], []
        self._offset = self._line = 0
        self._file = file

    def _take(self, raw: bytes) -> None:
        if not raw.strip():
            return
        try:
            self.rows.append(metric_row(self.path, parse_line(self.path, self._line, raw)))
        except DataError as error:
            self.problems.append(str(error))
