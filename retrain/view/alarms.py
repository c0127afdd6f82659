"""Alarms: what in the metrics of a run deserves a look now.

The thresholds are rules of thumb. Entropy that falls to a tenth of where it began is what Cui et
al. (2025), "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models", call
collapse; engines and trainers of the same weights differ by about 0.01 nats in bfloat16, so that a
mean of 0.1 is another computation, not rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from retrain.report.metrics import MetricRow
from retrain.report.series import Series

WINDOW = 5
"""Iterations at the end that are looked at together."""
ENTROPY_SHARE = 0.1
ZERO_VARIANCE_SHARE = 0.8
LOGPROB_DIFFERENCE = 0.1
FAILED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that deserves a look.

    Attributes:
        name: What it is called: entropy, zero-variance, drift, failures or mask.
        text: What was found, what it means and what to look at.
    """

    name: str
    text: str


def find_alarms(rows: Sequence[MetricRow], mask_faults: int = 0) -> list[Alarm]:
    """Look at the last iterations of a run.

    Args:
        rows: Its metrics.
        mask_faults: How many of its episodes have masks that cannot be right.
    """
    found = [alarm for check in _CHECKS for alarm in check(rows)]
    if mask_faults:
        found.append(
            Alarm(
                "mask",
                f"{mask_faults} episodes have a mask that cannot be right: filter by mask-fault; "
                "each says what is wrong",
            )
        )
    return found


def _entropy(rows: Sequence[MetricRow]) -> Iterator[Alarm]:
    values = Series.of(rows, "train/entropy").values
    if len(values) < 2 * WINDOW or not Series.of(rows, "reward/mean"):  # imitation sharpens
        return
    first, last = fmean(values[:WINDOW]), fmean(values[-WINDOW:])
    if last < ENTROPY_SHARE * first:
        yield Alarm(
            "entropy",
            f"entropy fell from {first:.3g} to {last:.3g} nats: the policy hardly explores; "
            "consider a higher temperature, a larger clip_eps_high or a KL term",
        )


def _zero_variance(rows: Sequence[MetricRow]) -> Iterator[Alarm]:
    share = _share(rows, "rollout/zero_variance_groups", "rollout/groups")
    if share is not None and share >= ZERO_VARIANCE_SHARE:
        yield Alarm(
            "zero-variance",
            f"{share:.0%} of the groups of the last {WINDOW} iterations have equal rewards and "
            "teach nothing: the tasks are too easy or too hard; filter them or change the reward",
        )


def _drift(rows: Sequence[MetricRow]) -> Iterator[Alarm]:
    name = "train/logprob_abs_diff_current"
    series = Series.of(rows, name) or Series.of(rows, "train/logprob_abs_diff")
    last = series.last(WINDOW)
    if last is not None and last > LOGPROB_DIFFERENCE:
        yield Alarm(
            "drift",
            f"trainer and engine differ by {last:.3g} nats a token in the mean: they no longer "
            "compute the same policy; colour the tokens by train - rollout, and look at "
            "importance_correction",
        )


def _failures(rows: Sequence[MetricRow]) -> Iterator[Alarm]:
    share = _share(rows, "rollout/failed", "rollout/episodes")
    if share is not None and share > FAILED_SHARE:
        yield Alarm(
            "failures",
            f"{share:.0%} of the episodes of the last {WINDOW} iterations failed: filter by "
            "failed; each says at which boundary and why",
        )


def _share(rows: Sequence[MetricRow], part: str, whole: str) -> float | None:
    parts, wholes = Series.of(rows, part), Series.of(rows, whole)
    total = sum(wholes.values[-WINDOW:])
    if len(wholes.values) < WINDOW or not total:
        return None
    return sum(parts.values[-WINDOW:]) / total


_CHECKS: tuple[Callable[[Sequence[MetricRow]], Iterator[Alarm]], ...] = (
    _entropy,
    _zero_variance,
    _drift,
    _failures,
)
