"""`Following`: keeps the index and the metrics of one run up to date, in a thread of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from retrain.report.metrics import MetricRow
from retrain.report.result import RESULT
from retrain.report.run_folder import METRICS
from retrain.view.alarms import Alarm, find_alarms
from retrain.view.documents import Document, file_document
from retrain.view.index import RunIndex
from retrain.view.metrics_tail import MetricsTail
from retrain.view.runs import RunPlace
from retrain.view.summary import Flag

_POLL_SECONDS = 1.0


class Following:
    """One run, looked at again and again.

    Attributes:
        place: The run.
        index: Its episodes.
    """

    def __init__(self, place: RunPlace, *, poll: float = _POLL_SECONDS) -> None:
        """Follow a run once `start` is called.

        Args:
            place: The run.
            poll: Seconds between two looks.
        """
        self.place = place
        self.index = RunIndex(place.folder)
        self._metrics = MetricsTail(place.folder / METRICS)
        self._rows: tuple[MetricRow, ...] = ()
        self._poll = poll
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow; a second call does nothing."""
        if self._thread is None:
            name = f"retrain-view-{self.place.name}"
            self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stop.is_set()

    def look(self) -> None:
        """Read all that is new, here and now."""
        if self._metrics.read():
            self._rows = tuple(self._metrics.rows)
        for _ in self.index.refresh():
            if self._stop.is_set():
                return

    def _follow(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self._poll)

    @property
    def rows(self) -> Sequence[MetricRow]:
        """The metrics so far."""
        return self._rows

    @property
    def stamp(self) -> tuple[int, int, bool]:
        """What changes whenever there is something new to show."""
        return self.index.state.version, len(self._rows), self._finished()

    @property
    def alarms(self) -> list[Alarm]:
        """What deserves a look."""
        faults = sum(Flag.MASK_FAULT in episode.flags for episode in self.index.episodes)
        return find_alarms(self._rows, faults)

    def document(self) -> Document:
        """What the page shows of the run around its lists."""
        state = self.index.state
        flags = Counter(flag for episode in self.index.episodes for flag in episode.flags)
        return {
            "name": self.place.name,
            "folder": str(self.place.folder),
            "version": state.version,
            "read": state.read,
            "total": state.files,
            "episodes": state.episodes,
            "finished": self._finished(),
            "problems": [*self._metrics.problems, *self.index.problems],
            "flags": {flag: flags[flag] for flag in Flag},
            "files": [file_document(file) for file in self.index.files],
            "alarms": [asdict(alarm) for alarm in self.alarms],
        }

    def _finished(self) -> bool:
        return _exists(self.place.folder / RESULT)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
