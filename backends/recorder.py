"""`RunRecorder`: what every backend writes into the run folder, under the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from retrain.report.batch_metrics import batch_metrics
from retrain.report.metrics import MetricsLog
from retrain.report.pieces import Decode
from retrain.report.progress import Progress
from retrain.report.run_folder import RunFolder
from retrain.report.samples import write_samples
from retrain.sample import Sample
from retrain.types import Group


class Recorder(Protocol):
    """Where a run's groups, metrics and notes go."""

    @property
    def latest(self) -> Mapping[str, float]:
        """The last value of every metric."""
        ...

    def collected(
        self,
        iteration: int,
        groups: Sequence[Group],
        samples: Sequence[Sample],
        seconds: float,
        extra: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Record what was rolled out for an iteration, before it is trained on.

        Args:
            iteration: Which one, from 1.
            groups: What was played.
            samples: Its samples.
            seconds: How long that took.
            extra: Further metrics, such as how the batch was filled.
        """
        ...

    def trained(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Record an iteration's training."""
        ...

    def evaluated(
        self, iteration: int, groups: Sequence[Group], samples: Sequence[Sample], seconds: float
    ) -> None:
        """Record an evaluation."""
        ...

    def note(self, text: str) -> None:
        """Show a message."""
        ...


class SilentRecorder:
    """Records nothing: the first of several processes writes the run folder for all."""

    latest: Mapping[str, float] = MappingProxyType({})

    def collected(
        self,
        iteration: int,
        groups: Sequence[Group],
        samples: Sequence[Sample],
        seconds: float,
        extra: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Do nothing."""

    def trained(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def evaluated(
        self, iteration: int, groups: Sequence[Group], samples: Sequence[Sample], seconds: float
    ) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""


class RunRecorder:
    """Keeps metrics and samples of one run, and shows its progress."""

    def __init__(self, folder: RunFolder, progress: Progress, decode: Decode) -> None:
        """Make a recorder.

        Args:
            folder: The run folder, already taken.
            progress: Shows what is recorded.
            decode: Gives the text of ids, for readable samples.
        """
        self.folder = folder
        self.progress = progress
        self.latest: dict[str, float] = {}
        self._decode = decode
        self._log = MetricsLog(folder.metrics)
        self._pending: dict[str, float] = {}

    def collected(
        self,
        iteration: int,
        groups: Sequence[Group],
        samples: Sequence[Sample],
        seconds: float,
        extra: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Record what was rolled out for an iteration, before it is trained on."""
        write_samples(self.folder.samples_of(iteration), samples, decode=self._decode)
        self._pending = {**batch_metrics(groups, seconds=seconds), **extra}

    def trained(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Record an iteration's training, and write its row."""
        row = {**self._pending, **metrics}
        self._pending = {}
        self._log.write(iteration, row)
        self.latest.update(row)
        self.progress.update(iteration, row)

    def evaluated(
        self, iteration: int, groups: Sequence[Group], samples: Sequence[Sample], seconds: float
    ) -> None:
        """Record an evaluation."""
        path = self.folder.samples_of(iteration, split="eval")
        write_samples(path, samples, decode=self._decode)
        row = batch_metrics(groups, seconds=seconds, prefix="eval/")
        self._log.write(iteration, row)
        self.latest.update(row)
        self.progress.update(iteration, row)

    def note(self, text: str) -> None:
        """Show a message."""
        self.progress.note(text)

    def close(self) -> None:
        """Close the metrics file."""
        self._log.close()
