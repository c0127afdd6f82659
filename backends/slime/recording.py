"""`log_rollout` and `log_eval`: our metrics and samples, into the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from backends.slime.regrouping import groups_of, made_here
from backends.slime.samples import flat, ours
from bridges import DataFormatBridge
from retrain.report.batch_metrics import EVALUATION, batch_metrics
from retrain.report.metrics import MetricsLog
from retrain.report.pieces import Decode
from retrain.report.run_folder import METRICS, SAMPLES
from retrain.report.samples import write_samples
from retrain.sample import Sample


@dataclass(frozen=True, slots=True)
class Held:
    """An evaluation that `log_eval` is to record.

    Attributes:
        rollout_id: Which rollout it belongs to.
        samples: All its samples, those of failed episodes included.
        seconds: How long it took; None where nobody measured it.
    """

    rollout_id: int
    samples: tuple[Any, ...]
    seconds: float | None


class RunLog:
    """Writes one process's part of a run folder: rows about episodes, and the samples.

    The launching process holds the folder's lock, and appends the rows about training to the same
    file; each row is one write.
    """

    def __init__(self, run_dir: Path, data_format: DataFormatBridge, decode: Decode) -> None:
        """Take the run folder.

        Args:
            run_dir: The run folder, made by the launching process or by this one.
            data_format: Rebuilds episodes from samples.
            decode: Gives the text of ids, for readable samples.
        """
        self._folder = run_dir / SAMPLES
        self._folder.mkdir(parents=True, exist_ok=True)
        self._metrics = MetricsLog(run_dir / METRICS)
        self._data_format = data_format
        self._decode = decode
        self._held: Held | None = None
        self._trained = False

    def hold(self, held: Held) -> None:
        """Keep an evaluation until `log_eval` is called for it."""
        self._held = held

    def train(
        self,
        rollout_id: int,
        samples: Iterable[Any],
        advantages: Sequence[float],
        seconds: float,
        extra: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Record a rollout; its iteration is counted from 1.

        Args:
            rollout_id: Which rollout.
            samples: Slime's samples.
            advantages: The advantage of each, in order.
            seconds: How long the rollout took.
            extra: Further metrics: how the rollout was filled.
        """
        self._trained = True
        pairs = zip(flat(samples), advantages, strict=True)
        rows = [_row(sample, value) for sample, value in pairs if made_here(sample)]
        if rows:
            iteration = rollout_id + 1
            write_samples(self._folder / f"{iteration}.jsonl", rows, decode=self._decode)
            groups = groups_of(rows, self._data_format)
            self._metrics.write(iteration, {**batch_metrics(groups, seconds=seconds), **extra})

    def evaluation(self, rollout_id: int, samples: Iterable[Any]) -> None:
        """Record an evaluation; one before the first rollout is iteration 0."""
        held, self._held = self._held, None
        if held is None or held.rollout_id != rollout_id:
            held = Held(rollout_id, tuple(flat(samples)), None)
        rows = [ours(sample) for sample in held.samples if made_here(sample)]
        if rows:
            iteration = rollout_id + int(self._trained or rollout_id > 0)
            path = self._folder / f"eval-{iteration}.jsonl"
            write_samples(path, rows, decode=self._decode)
            groups = groups_of(rows, self._data_format)
            row = batch_metrics(groups, seconds=held.seconds, prefix=EVALUATION)
            self._metrics.write(iteration, row)


def _row(sample: Any, advantage: float) -> Sample:
    row = ours(sample)
    row.advantage = advantage
    return row
