"""The comparison of backends for programs: JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from retrain.parity.recorded import Recorded
from retrain.parity.report import BackendOutcome, ParityReport
from retrain.parity.rows import LossRow, digest


def parity_document(report: ParityReport, recorded: Recorded) -> dict[str, Any]:
    """What `retrain parity --json` prints; a sample's hash is of all that training reads of it."""
    return {
        "equal": report.equal,
        "tape": {"sha256": digest(report.expected), **_sizes(report.expected)},
        "notes": list(recorded.notes),
        "backends": [_outcome(outcome) for outcome in report.outcomes],
        "loss_weights": [asdict(weights) for weights in report.weights],
        "samples": [_sample(row, report, recorded) for row in report.expected],
    }


def _outcome(outcome: BackendOutcome) -> dict[str, Any]:
    reading = outcome.reading
    named = {
        "backend": outcome.backend,
        "absent": outcome.absent,
        "refused": outcome.refused,
        "failed": outcome.failed,
    }
    if reading is None:
        return named
    return {
        **named,
        "source": reading.source,
        "sha256": digest(reading.rows),
        **_sizes(reading.rows),
        "aggregation": reading.aggregation,
        "notes": list(reading.notes),
        "differences": [asdict(difference) for difference in outcome.differences],
    }


def _sizes(rows: tuple[LossRow, ...]) -> dict[str, int]:
    return {
        "rows": len(rows),
        "tokens": sum(len(row.tokens) for row in rows),
        "trained": sum(row.trained for row in rows),
    }


def _sample(row: LossRow, report: ParityReport, recorded: Recorded) -> dict[str, Any]:
    samples = recorded.config.algorithm.hyperparameters.n_samples_per_prompt
    groups = {group.index: group for group in recorded.groups}
    group = groups[row.index // samples]
    hashes = {"tape": digest([row])}
    for reading in report.readings:
        hashes[reading.backend] = digest(r for r in reading.rows if r.place == row.place)
    return {
        "task_id": group.task.id,
        "visit": group.visit,
        "sample_index": row.index % samples,
        "part": row.part,
        "sha256": hashes,
    }
