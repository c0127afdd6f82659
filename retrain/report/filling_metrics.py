"""The metrics of how a batch was filled: what was dropped, carried over and begun again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from retrain.rollout.filling import OverSampling, Tally
from retrain.types import Group

_PREFIXES = ("rollout/dropped", "rollout/replaced", "rollout/fallback", "rollout/restarted")
_NAMES = (
    "rollout/carried",
    "rollout/continued",
    "rollout/stale_tokens",
    "rollout/unfinished",
)


def filling_metrics(
    how: OverSampling, tally: Tally, groups: Sequence[Group], fresh: Collection[str]
) -> dict[str, float]:
    """Compute what an iteration says about how its batch was filled.

    Args:
        how: How it was filled; where every group is waited for and kept, only what did happen to
            others is said.
        tally: What became of the groups that are not in the batch.
        groups: The batch.
        fresh: The weight versions that wrote in this iteration.

    Returns:
        Numbers by canonical name (`retrain.report.metric_names.METRICS`).
    """
    replaced = {"rollout/replaced": float(tally.replaced)} if tally.replaced else {}
    if how.plain:
        again = {"rollout/restarted": tally.restarted, "rollout/continued": tally.continued}
        return {**{name: float(count) for name, count in again.items() if count}, **replaced}
    unfinished = {} if how.partial else {"rollout/unfinished": float(tally.unfinished)}
    return {
        "rollout/dropped": sum(tally.dropped.values()),
        **{f"rollout/dropped/{name}": count for name, count in sorted(tally.dropped.items())},
        "rollout/fallback": tally.fallback,
        **unfinished,
        "rollout/restarted": tally.restarted,
        "rollout/continued": tally.continued,
        "rollout/carried": tally.carried,
        "rollout/stale_tokens": stale_tokens(groups, fresh),
        **replaced,
    }


def stale_tokens(groups: Sequence[Group], fresh: Collection[str]) -> int:
    """How many sampled tokens of a batch were written by weights that are not in `fresh`."""
    return sum(
        count
        for group in groups
        for trajectory in group.trajectories
        for turn in trajectory.turns
        for count, version in turn.spans
        if version not in fresh
    )


def only_filling(metrics: Mapping[str, float]) -> dict[str, float]:
    """Those of some metrics that `filling_metrics` gives."""
    return {
        name: value
        for name, value in metrics.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }
