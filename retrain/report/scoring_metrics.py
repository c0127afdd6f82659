"""What scoring says about a batch: failures of components, and what is trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

from retrain.types import Scoring, Trajectory

_RESERVED = frozenset({"mean", "std"})


def component_metric(name: str, at: str = "reward") -> str:
    """The name of a component's metric; "mean" and "std" are taken."""
    return f"{at}/{name}_component" if name in _RESERVED else f"{at}/{name}"


def scoring_metrics(episodes: Iterable[Trajectory]) -> dict[str, float]:
    """Count failed and repeated calls, and average what is trained on where it was normalised.

    Args:
        episodes: All episodes of the batch; only valid ones are averaged.
    """
    known = [(episode, episode.scoring) for episode in episodes if episode.scoring is not None]
    failed, retried = Counter[str](), Counter[str]()
    for _, scoring in known:
        failed.update(f"{name}/{reason}" for name, reason in scoring.failures.items())
        retried.update(scoring.retries)
    return {
        **_trained([scoring for episode, scoring in known if episode.valid]),
        **{f"reward/failed/{name}": count for name, count in sorted(failed.items())},
        **{f"reward/retried/{name}": count for name, count in sorted(retried.items())},
    }


def _trained(scorings: list[Scoring]) -> dict[str, float]:
    totals = [scoring.trained for scoring in scorings if scoring.trained is not None]
    found = {"reward/trained/mean": fmean(totals)} if totals else {}
    for name in sorted({name for scoring in scorings for name in scoring.normalised}):
        values = [s.normalised[name] for s in scorings if name in s.normalised]
        found[component_metric(name, "reward/trained")] = fmean(values)
    return found
