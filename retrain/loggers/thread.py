"""One logger in a thread of its own, so that none can hold up the run or another logger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from retrain.errors import DataError
from retrain.loggers.base import LoggerFailure, MetricsLogger
from retrain.loggers.new_rows import NewRows
from retrain.report.metrics import MetricRow

_LOOK_SECONDS = 0.5
"""Between two looks at the metrics file."""

Open = Callable[[Sequence[MetricRow]], MetricsLogger]
"""Makes the logger; takes the rows from before a resume."""


class LoggerThread:
    """Feeds a logger the rows of a metrics file as they come."""

    def __init__(
        self,
        name: str,
        metrics: Path,
        open_logger: Open,
        note: Callable[[str], None],
        *,
        every: float = _LOOK_SECONDS,
    ) -> None:
        """Remember what the metrics file holds now; the logger is made with its next row.

        Args:
            name: The logger's name, for messages.
            metrics: The metrics file; it need not exist yet.
            open_logger: Makes the logger.
            note: Shows a message, in any thread.
            every: Seconds between two looks.
        """
        self._name = name
        self._rows = NewRows(metrics)
        self._open = open_logger
        self._note = note
        self._every = every
        self._ended = threading.Event()
        self._ended_well = False
        self._thread = threading.Thread(target=self._run, name=f"logger {name}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self, *, ended_well: bool) -> None:
        """Ask the logger to take the rows that are left, and to close."""
        self._ended_well = ended_well
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has; one that takes longer than `seconds` is named and left behind."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._note(
                f"logger {self._name}: has not ended in time and is left behind; its last rows "
                "may be missing, metrics.jsonl has them all"
            )

    def _run(self) -> None:
        try:
            self._feed()
        except (LoggerFailure, DataError, OSError) as error:
            self._note(
                f"logger {self._name}: stopped {error}; the run goes on, and metrics.jsonl has "
                "every row"
            )

    def _feed(self) -> None:
        logger: MetricsLogger | None = None
        ended = False
        while not ended:
            ended = self._ended.wait(self._every)
            for row in self._rows.take():
                with _failing(f"at iteration {row.iteration}"):
                    logger = logger or self._open(self._rows.earlier)
                    logger.write(row)
        if logger is not None:
            with _failing("at its end"):
                logger.close(ended_well=self._ended_well)


@contextmanager
def _failing(when: str) -> Iterator[None]:
    """Turn whatever somebody else's logger raises into one failure."""
    try:
        yield
    except LoggerFailure as error:
        raise LoggerFailure(f"{when}: {error}") from error
    except Exception as error:
        text = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
        raise LoggerFailure(f"{when}: {reason}") from error
