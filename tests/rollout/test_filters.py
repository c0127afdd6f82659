"""Filters over explicit groups: what they keep, why they drop, and what a bad one is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from retrain.errors import ConfigError
from retrain.rollout.filter_building import make_filter
from retrain.rollout.filters import FilterResult, judge
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Group, Segment, StopReason, Task, Trajectory, Turn

TASK = Task("t", "question")


def episode(
    reward: float | None,
    *,
    ids: Sequence[int] = (5, 6),
    status: Status = Status.COMPLETED,
    success: float | None = None,
) -> Trajectory:
    info = {} if success is None else {"success": success}
    turn = Turn(tuple(ids), (-0.5,) * len(ids), FinishReason.STOP, Action("a"), info=info)
    return Trajectory(
        TASK,
        EpisodeSeed(0, "train", "t", 0, 0),
        (Segment((1, 2), (turn,)),),
        status,
        StopReason.TERMINATED,
        reward=reward,
    )


def group(*episodes: Trajectory | float | None) -> Group:
    slots = [e if isinstance(e, Trajectory) else episode(e) for e in episodes]
    return Group(0, TASK, 0, tuple(slots), (0.0,) * len(slots))


FAILED = episode(1.0, status=Status.FAILED)
KEEP = FilterResult(True)
LENGTH = "check_reasonable_length"
TWO_OR_MORE = {"name": "check_min_reward", "min_reward": 2.0}


@pytest.mark.parametrize(
    ("spec", "slots", "expected"),
    [
        ("check_reward_nonzero_std", (0.0, 1.0), KEEP),
        ("check_reward_nonzero_std", (0.1, 0.1, 0.1), FilterResult(False, "zero_std_0.1")),
        ("check_reward_nonzero_std", (1.0, FAILED), FilterResult(False, "fewer_than_two_valid")),
        ("check_reward_nonzero_std", (1.0, 1.0, FAILED, 0.0), KEEP),
        ("check_reward_nonzero_std", (math.nan, 1.0, 1.0), FilterResult(False, "zero_std_1")),
        ("check_reward_nonzero_std", (math.inf, 1.0), FilterResult(False, "fewer_than_two_valid")),
        (
            {"name": "check_reward_nonzero_std", "min_std": 0.2},
            (0.5, 0.6),
            FilterResult(False, "zero_std_0.5"),
        ),
        ({"name": "check_min_reward", "min_reward": 0.5}, (0.0, 0.5), KEEP),
        (
            {"name": "check_min_reward", "min_reward": 0.5},
            (0.4, FAILED, math.nan),
            FilterResult(False, "low_reward"),
        ),
        ("check_any_success", (0.2, 1.0), KEEP),
        ("check_any_success", (0.2, 0.3), FilterResult(False, "no_success")),
        (
            "check_any_success",
            (episode(1.0, success=0.0), episode(1.0, success=0.0)),
            FilterResult(False, "no_success"),
        ),
        ("check_any_success", (episode(0.0, success=1.0),), KEEP),
        ("check_response_diversity", (episode(0.0, ids=(1,)), episode(0.0, ids=(2,))), KEEP),
        ("check_response_diversity", (0.0, 1.0, 0.5), FilterResult(False, "repetitive")),
        ("check_response_diversity", (FAILED,), FilterResult(False, "repetitive")),
        (
            {"name": "check_reasonable_length", "min_tokens": 3},
            (1.0,),
            FilterResult(False, "too_short"),
        ),
        (
            {"name": "check_reasonable_length", "max_tokens": 1},
            (1.0,),
            FilterResult(False, "too_long"),
        ),
        ({"name": LENGTH, "max_tokens": 2}, (1.0,), KEEP),
        (
            "check_quality_and_diversity",
            (episode(0.0, ids=(1,)), episode(1.0, ids=(2,))),
            KEEP,
        ),
        ("check_quality_and_diversity", (0.0, 1.0, 0.5), FilterResult(False, "repetitive")),
        ("check_quality_and_diversity", (0.0, 0.0), FilterResult(False, "zero_std_0")),
        (
            {
                "all_of": [
                    "check_reward_nonzero_std",
                    {"name": "check_min_reward", "min_reward": 2.0},
                ]
            },
            (0.0, 1.0),
            FilterResult(False, "low_reward"),
        ),
        (
            {"any_of": ["check_any_success", {"name": "check_min_reward", "min_reward": 0.7}]},
            (0.0, 0.5),
            FilterResult(False, "no_success+low_reward"),
        ),
        ({"any_of": ["check_any_success", "check_min_reward"]}, (0.0, 0.5), KEEP),
        ({"not": "check_any_success"}, (1.0,), FilterResult(False, "not_check_any_success")),
        ({"not": "check_any_success"}, (0.0,), KEEP),
    ],
)
async def test_what_is_kept(spec: Any, slots: tuple[Any, ...], expected: FilterResult) -> None:
    assert await judge(make_filter(spec), group(*slots)) == expected


async def test_a_masked_slot_does_not_count() -> None:
    masked = replace(episode(0.0), masked=True)
    result = await judge(make_filter("check_reward_nonzero_std"), group(1.0, 1.0, masked))
    assert result == FilterResult(False, "zero_std_1")


def raises(group: Group) -> bool:
    raise KeyError("no such thing")


def returns_text(group: Group) -> str:
    return "yes"


def is_long(group: Group, *, least: int) -> bool:
    return len(group.trajectories) >= least


async def is_even(group: Group) -> bool:
    return len(group.trajectories) % 2 == 0


async def test_functions_of_ones_own_by_path() -> None:
    least = make_filter({"name": f"{__name__}:is_long", "least": 2})
    assert await judge(least, group(0.0, 1.0)) == KEEP
    assert await judge(least, group(0.0)) == FilterResult(False, "is_long")
    even = make_filter(f"{__name__}:is_even")
    assert await judge(even, group(0.0)) == FilterResult(False, "is_even")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", r"rollout.filter 'raises': KeyError: 'no such thing' \(group of task 't'\)"),
        ("returns_text", "rollout.filter 'returns_text': returned 'yes' for the group of task 't'"),
    ],
)
async def test_a_bad_filter_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await judge(make_filter({"all_of": [f"{__name__}:{name}"]}), group(1.0))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("check_reward_std", "unknown filter 'check_reward_std': did you mean"),
        (
            {"name": "check_min_reward", "min": 1.0},
            r"rollout.filter.min: .* known: min_reward",
        ),
        ({"name": "check_min_reward", "min_reward": "x"}, "rollout.filter.min_reward"),
        ({"all_of": []}, r"rollout.filter.all_of: expected a list of filters"),
        ({"all_of": [3]}, r"rollout.filter.all_of\[0\]: expected a filter, got 3"),
        ({}, "rollout.filter: expected a name"),
        ({"all_of": ["check_min_reward"], "not": "x"}, "exactly one of"),
        ({"name": 3}, "rollout.filter.name: expected a name"),
    ],
)
def test_a_wrong_description_names_its_key(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_filter(spec)
