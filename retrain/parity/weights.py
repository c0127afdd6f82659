"""The weight of each token in the loss: where two frameworks' aggregations differ, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from retrain.parity.rows import LossReading, LossRow, Place

_TOLERANCE = 1e-5
"""Relative; a weight that is read from a float32 gradient has about 1e-7 of it."""

_HYPER = "algorithm.hyperparameters"


@dataclass(frozen=True, slots=True)
class WeightComparison:
    """The loss weights of two backends.

    Attributes:
        backends: Their names.
        tokens: Trained tokens that both have.
        differing: How many of them weigh differently.
        ratio: The largest ratio of the second's weight to the first's, or of the first's to the
            second's.
        causes: The frameworks' own rules that the difference follows from, each with the setting
            that makes the weights equal; empty where nothing differs.
        explained: Whether the causes account for every weight.
    """

    backends: tuple[str, str]
    tokens: int
    differing: int
    ratio: float
    causes: tuple[str, ...]
    explained: bool


def compare_weights(first: LossReading, second: LossReading) -> WeightComparison:
    """Compare the weights that two backends give to the same tokens."""
    others = {row.place: row for row in second.rows}
    pairs = [
        pair
        for row in first.rows
        if row.place in others
        for pair in _trained(row, others[row.place])
    ]
    apart = [pair for pair in pairs if not _close(*pair)]
    ratios = [max(a, b) / min(a, b) if min(a, b) > 0 else float("inf") for a, b in apart]
    causes = tuple(_causes(first, second)) if apart else ()
    own = follows_its_rule(first) and follows_its_rule(second)
    return WeightComparison(
        backends=(first.backend, second.backend),
        tokens=len(pairs),
        differing=len(apart),
        ratio=max(ratios, default=1.0),
        causes=causes,
        explained=not apart or (bool(causes) and own),
    )


def follows_its_rule(reading: LossReading) -> bool:
    """Whether every weight of a backend is what its aggregation says for the row's own step."""
    rule = _rule(reading)
    return all(
        _close(weight, rule[row.place])
        for row in reading.rows
        for weight, trained in zip(row.weights, row.mask, strict=False)  # a backend may give none
        if trained
    )


def _rule(reading: LossReading) -> dict[Place, float]:
    """The weight of a trained token of each row.

    Source of the formulas: DAPO (Yu et al., 2025) for the mean over tokens, GRPO (Shao et al.,
    2024) for the mean over sequences, Dr. GRPO (Liu et al., 2025) for the constant.
    """
    steps: dict[int, list[LossRow]] = defaultdict(list)
    for row in reading.rows:
        steps[row.step].append(row)
    return {
        row.place: weight
        for rows in steps.values()
        for row, weight in zip(rows, _step_weights(rows, reading), strict=True)
    }


def _step_weights(rows: list[LossRow], reading: LossReading) -> list[float]:
    if reading.aggregation == "token":
        tokens = sum(row.trained or reading.untrained_counts for row in rows)
        return [1 / max(tokens, 1)] * len(rows)
    rollouts: dict[int, int] = defaultdict(int)
    for row in rows:
        rollouts[row.index] += row.trained
    if reading.aggregation == "constant":
        return [1 / (reading.constant * len(rollouts))] * len(rows)
    return [1 / (max(rollouts[row.index], 1) * len(rollouts)) for row in rows]


def _causes(first: LossReading, second: LossReading) -> Iterator[str]:
    if first.aggregation != second.aggregation:
        yield (
            f"{first.backend} takes the mean by {first.aggregation}, {second.backend} by "
            f"{second.aggregation}: set {_HYPER}.loss_aggregation"
        )
    if _steps(first) != _steps(second):
        yield (
            "the optimizer steps of an iteration hold other rollouts, since TRL shuffles them: "
            f"set {_HYPER}.global_batch_size to rollout_batch_size x n_samples_per_prompt"
        )
    untrained = any(not row.trained for row in first.rows)
    if untrained and first.untrained_counts != second.untrained_counts:
        more = max(first, second, key=lambda reading: reading.untrained_counts)
        yield (
            f"{more.backend} counts a row that trains nothing (a failed episode) as "
            f"{more.untrained_counts} token of its step: set {_HYPER}.loss_aggregation to sequence"
        )


def _steps(reading: LossReading) -> set[frozenset[Place]]:
    """The optimizer steps, each as the rows that it is made of."""
    steps: dict[int, set[Place]] = defaultdict(set)
    for row in reading.rows:
        steps[row.step].add(row.place)
    return {frozenset(places) for places in steps.values()}


def _trained(one: LossRow, other: LossRow) -> Iterator[tuple[float, float]]:
    both = zip(one.weights, other.weights, one.mask, other.mask, strict=False)
    return ((a, b) for a, b, trained, also in both if trained and also)


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _TOLERANCE * max(abs(one), abs(other))
