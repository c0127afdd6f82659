"""Reward functions that count their calls, for worlds of `plugin_world`."""

from __future__ import annotations

from collections import Counter

from retrain.types import Trajectory

CALLS: Counter[str] = Counter()


def length(trajectory: Trajectory) -> float:
    """The length of the answer."""
    CALLS["length"] += 1
    return float(len(trajectory.response_text))


def best(group: list[Trajectory]) -> list[float]:
    """1 for the longest answers of a group."""
    CALLS["best"] += 1
    longest = max(len(t.response_text) for t in group)
    return [float(len(t.response_text) == longest) for t in group]


def not_the_first(values: dict[str, float], weights: dict[str, float]) -> float:
    """A combination that fails on the best of a group, once lengths are ranks."""
    if values["length"] == 0.5:
        raise ValueError("the best one")
    return values["length"]


async def slimes(args: object, sample: object, **kwargs: object) -> dict[str, float]:
    """The tokens of the response, as a function written for slime gives it."""
    CALLS["slimes"] += 1
    return {"score": sample.response_length / args.max_response_len}  # type: ignore[attr-defined]
