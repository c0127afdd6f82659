"""Every backend's reading beside the tape, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from retrain.parity.comparison import Decode, RowDifference, row_differences
from retrain.parity.rows import LossReading, LossRow, rewards_by_name
from retrain.parity.weights import WeightComparison, compare_weights

if TYPE_CHECKING:
    from retrain.sample import Sample


@dataclass(frozen=True, slots=True)
class BackendOutcome:
    """What became of one backend.

    Attributes:
        backend: Its name.
        reading: What it gives to its loss; None where it could not be read.
        differences: Where that is not the tape's.
        absent: Why it is not here; "" where it is.
        refused: Why its plan does not take this configuration; "" where it does.
        failed: Why it could not be read all the same; "" where it could.
    """

    backend: str
    reading: LossReading | None = None
    differences: tuple[RowDifference, ...] = ()
    absent: str = ""
    refused: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ParityReport:
    """The comparison.

    Attributes:
        expected: The tape's rows.
        outcomes: One for each backend.
        weights: The loss weights of every two backends that could be read.
        required: The backends that must take the configuration.
    """

    expected: tuple[LossRow, ...]
    outcomes: tuple[BackendOutcome, ...]
    weights: tuple[WeightComparison, ...]
    required: frozenset[str] = frozenset()

    @property
    def readings(self) -> tuple[LossReading, ...]:
        """What could be read."""
        return tuple(o.reading for o in self.outcomes if o.reading is not None)

    @property
    def differences(self) -> tuple[RowDifference, ...]:
        """Every difference of a row, in the order of the backends."""
        return tuple(d for outcome in self.outcomes for d in outcome.differences)

    @property
    def equal(self) -> bool:
        """Whether something was read, and nothing unexplained differs.

        A backend that refuses the configuration, or is not here, trains nothing else in its place,
        so it is no difference, unless it is required. One that fails is.
        """
        missing = any(
            o.failed or ((o.refused or o.absent) and o.backend in self.required)
            for o in self.outcomes
        )
        explained = all(weights.explained for weights in self.weights)
        return bool(self.readings) and not missing and not self.differences and explained


def outcome_of(expected: Sequence[LossRow], reading: LossReading, decode: Decode) -> BackendOutcome:
    """Compare one backend's rows with the tape's."""
    differences = tuple(row_differences(expected, reading, decode))
    return BackendOutcome(reading.backend, reading, differences)


def report_of(
    expected: Sequence[LossRow],
    outcomes: Sequence[BackendOutcome],
    required: Iterable[str] = (),
) -> ParityReport:
    """Put the backends beside one another.

    Args:
        expected: The tape's rows.
        outcomes: One for each backend.
        required: The backends that must take the configuration.
    """
    readings = [outcome.reading for outcome in outcomes if outcome.reading is not None]
    weights = tuple(compare_weights(*pair) for pair in combinations(readings, 2))
    return ParityReport(tuple(expected), tuple(outcomes), weights, frozenset(required))


def expected_rows(slots: Iterable[Sequence[Sample]]) -> tuple[LossRow, ...]:
    """What the samples of episodes must become in any backend.

    Args:
        slots: The samples of each episode.
    """
    return tuple(
        LossRow(
            index=sample.index if sample.index is not None else -1,
            part=part,
            tokens=tuple(sample.tokens),
            mask=tuple(sample.loss_mask),
            logprobs=tuple(sample.rollout_log_probs),
            reward=_reward(sample),
            advantage=sample.advantage,
            rewards=rewards_by_name(sample),
        )
        for slot in slots
        for part, sample in enumerate(slot)
    )


def _reward(sample: Sample) -> float | None:
    """The raw reward of a sample that trains something; ours are numbers."""
    reward = sample.reward
    return None if sample.remove_sample or not isinstance(reward, int | float) else float(reward)
