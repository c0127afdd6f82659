"""TensorBoard: one event file in the run folder, `tensorboard/`."""

from __future__ import annotations

import os
import time

from retrain.loggers.base import LoggedRun, finite
from retrain.report.metrics import MetricRow

FOLDER = "tensorboard"
"""The folder of the event file, in the run folder."""


class TensorBoardLogger:
    """Writes every row as scalars over the iterations.

    The event file of a run that is resumed is written again from the rows that remain, so that it
    holds what metrics.jsonl holds. Every row reaches the operating system at once.
    """

    def __init__(self, run: LoggedRun) -> None:
        """Begin the event file.

        Args:
            run: The run.

        Raises:
            OSError: It cannot be written.
        """
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = run.path / FOLDER
        folder.mkdir(exist_ok=True)
        for file in folder.glob("events.out.tfevents.*"):
            file.unlink()
        name = f"events.out.tfevents.{time.time():010.0f}.retrain.{os.getpid()}.{run.id}"
        self._file = (folder / name).open("wb")
        self._records = RecordWriter(self._file)
        self._begin()
        for row in run.earlier:
            self.write(row)

    def _begin(self) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        head = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._records.write(head.SerializeToString())

    def write(self, row: MetricRow) -> None:
        """Write a row.

        Raises:
            OSError: It cannot be written, for example because the disk is full.
        """
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=n, simple_value=v) for n, v in finite(row).items()]
        event = Event(wall_time=row.time, step=row.iteration, summary=Summary(value=values))
        self._records.write(event.SerializeToString())
        self._file.flush()

    def close(self, *, ended_well: bool) -> None:
        """Close the event file."""
        self._file.close()
