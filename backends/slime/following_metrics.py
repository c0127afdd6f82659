"""`MetricsFollower`: shows a run's progress from its metrics file, whoever writes the rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrain.report.metrics import ITERATION, TIME
from retrain.report.progress import Progress

_LOOK_SECONDS = 0.5


class MetricsFollower:
    """Reads new rows of a metrics file in a thread and shows each iteration once.

    The rows of an iteration come from two processes: what was rolled out is written before it is
    trained on. They are shown together, with the training's row, or when the next iteration's
    training begins; evaluations are shown at once.
    """

    def __init__(self, path: Path, progress: Progress, *, every: float = _LOOK_SECONDS) -> None:
        """Make a follower of the rows that come from now on.

        Args:
            path: The metrics file; it need not exist yet.
            progress: Shows the rows; used under this object's lock only.
            every: Seconds between two looks.
        """
        self.latest: dict[str, float] = {}
        self._path = path
        self._progress = progress
        self._every = every
        self._offset = path.stat().st_size if path.exists() else 0
        self._rolled_out: dict[int, dict[str, float]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def note(self, text: str) -> None:
        """Show a message, between rows."""
        with self._lock:
            self._progress.note(text)

    def stop(self) -> None:
        """Show what there is and end; `latest` then holds the last value of every metric."""
        self._stopped.set()
        self._thread.join()
        with self._lock:
            self._read()
            for iteration in sorted(self._rolled_out):
                self._show(iteration, {})

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            with self._lock:
                self._read()

    def _read(self) -> None:
        """Take the whole lines that have come; the last may still be in writing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._row(json.loads(line))

    def _row(self, row: Mapping[str, Any]) -> None:
        iteration = int(row[ITERATION])
        values = {
            name: float(value)
            for name, value in row.items()
            if name not in (ITERATION, TIME) and value is not None
        }
        self.latest.update(values)
        if any(name.startswith("eval/") for name in values):
            self._progress.update(iteration, values)
        elif any(name.startswith("train/") for name in values):
            for earlier in sorted(n for n in self._rolled_out if n < iteration):
                self._show(earlier, {})
            self._show(iteration, values)
        else:
            self._rolled_out.setdefault(iteration, {}).update(values)

    def _show(self, iteration: int, trained: Mapping[str, float]) -> None:
        row = self._rolled_out.pop(iteration, {})
        self._progress.update(iteration, {**row, **trained})
