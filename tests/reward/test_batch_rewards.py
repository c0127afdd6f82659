"""Functions of many episodes: how they are told, how they are cut up, what they may give."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_episodes import make_episode

from retrain.reward import (
    ComponentKind,
    RewardCalculator,
    RewardComponent,
    batch_reward,
    group_reward,
)
from retrain.reward.chunks import chunks
from retrain.reward.taking import Takes, takes_of
from retrain.reward.values import BadValue, BadValues
from retrain.types import Trajectory


def by_list(episodes: list[Trajectory]) -> list[float]:
    return [float(len(episodes))] * len(episodes)


def by_sequence(episodes: Sequence[Trajectory], *, bonus: float = 0.0) -> list[float]:
    return [len(episodes) + bonus] * len(episodes)


def by_name(trajectories: Any) -> list[float]:
    return [float(len(trajectories))] * len(trajectories)


@batch_reward
def by_mark(things: Any) -> list[float]:
    return [float(len(things))] * len(things)


@batch_reward
async def asynchronous(things: Any) -> Any:
    return np.array([len(things)] * len(things), dtype=np.float32)


class Callable_:
    def __call__(self, episodes: tuple[Trajectory, ...]) -> list[float]:
        return [float(len(episodes))] * len(episodes)


@pytest.mark.parametrize(
    "function", [by_list, by_sequence, by_name, by_mark, asynchronous, Callable_()]
)
async def test_a_function_of_many_gets_all_at_once(function: Callable[..., Any]) -> None:
    assert takes_of(function) is Takes.EPISODES
    assert await totals(component(function), 3) == [3.0, 3.0, 3.0]


def one(episode: Trajectory) -> float:
    return 1.0


def unannotated(trajectory, scale=2.0):  # type: ignore[no-untyped-def]
    return scale


def unresolvable(thing: Nowhere) -> float:  # type: ignore[name-defined]  # noqa: F821
    return 1.0


@pytest.mark.parametrize("function", [one, unannotated, unresolvable, lambda: 1.0])
def test_any_other_function_takes_one(function: Callable[..., Any]) -> None:
    assert takes_of(function) is Takes.EPISODE


def best(group: Sequence[Trajectory]) -> list[float]:
    longest = max(len(t.response_text) for t in group)
    return [float(len(t.response_text) == longest) for t in group]


@group_reward
def group_size(episodes: Any) -> list[float]:
    return [float(len(episodes))] * len(episodes)


async def test_a_group_function_gets_each_group_whole_wherever_its_members_stand() -> None:
    first, second = (lambda text, visit=visit: of_visit(text, visit) for visit in (0, 1))
    episodes = [first("a"), second("bbbb"), first("aaa"), second("b"), first("a")]
    calculator = RewardCalculator([component(best, "best"), component(group_size, "size")])

    scores = await calculator.score(episodes)

    assert [s.components["best"] for s in scores] == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert [s.components["size"] for s in scores] == [3.0, 2.0, 3.0, 2.0, 3.0]
    assert calculator.needs_groups
    assert not RewardCalculator([component(by_list)]).needs_groups


async def test_a_batch_is_cut_by_size_and_results_stay_in_order() -> None:
    sizes: list[int] = []

    def lengths(trajectories: list[Trajectory]) -> list[float]:
        sizes.append(len(trajectories))
        return [float(len(t.response_text)) for t in trajectories]

    calculator = RewardCalculator([component(lengths, batch_size=2)])
    scores = await calculator.score([make_episode("x" * n) for n in range(5)])

    assert [s.total for s in scores] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sorted(sizes) == [1, 2, 2]


async def test_a_chunk_that_fails_leaves_the_others_alone() -> None:
    def picky(trajectories: list[Trajectory]) -> list[float]:
        if any(t.response_text == "xxx" for t in trajectories):
            raise ValueError("three")
        return [1.0] * len(trajectories)

    calculator = RewardCalculator([component(picky, batch_size=2)])
    scores = await calculator.score([make_episode("x" * n) for n in range(6)])

    assert [s.total for s in scores] == [1.0, 1.0, None, None, 1.0, 1.0]


@pytest.mark.parametrize(
    ("sizes", "most", "budget", "expected"),
    [
        ([], None, None, []),
        ([5, 5, 5], None, None, [[0, 1, 2]]),
        ([5, 5, 5], 2, None, [[0, 1], [2]]),
        ([5, 5, 5], None, 10, [[0, 1], [2]]),
        ([1, 1, 1, 9], None, 10, [[0, 1, 2], [3]]),
        ([99, 1, 1], None, 10, [[0], [1, 2]]),
        ([5, 5, 5], 1, 100, [[0], [1], [2]]),
    ],
)
def test_chunks(
    sizes: list[int], most: int | None, budget: int | None, expected: list[list[int]]
) -> None:
    assert chunks(sizes, most, budget) == expected


@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.none() | st.integers(1, 10),
    st.none() | st.integers(1, 200),
)
def test_chunks_lose_nothing_and_keep_their_bounds(
    sizes: list[int], most: int | None, budget: int | None
) -> None:
    found = chunks(sizes, most, budget)

    assert [position for chunk in found for position in chunk] == list(range(len(sizes)))
    for chunk in found:
        assert most is None or len(chunk) <= most
        padded = len(chunk) * max(sizes[n] for n in chunk)
        assert budget is None or padded <= budget or len(chunk) == 1


async def test_the_token_budget_counts_prompt_and_response() -> None:
    sizes: list[int] = []

    def count(trajectories: list[Trajectory]) -> list[float]:
        sizes.append(len(trajectories))
        return [0.0] * len(trajectories)

    # every episode here has 1 token of prompt and 2 of response
    await totals(component(count, batch_tokens=6), 5)

    assert sorted(sizes) == [1, 2, 2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1.0], "reward r returned 1 values for 2 episodes"),
        ([1.0] * 3, "reward r returned 3 values for 2 episodes"),
        (np.zeros(5), "reward r returned 5 values for 2 episodes"),
        ("ab", "reward r returned str 'ab' instead of a list"),
        (None, "reward r returned NoneType None instead of a list"),
        (np.zeros((2, 3)), "reward r returned list [0.0, 0.0, 0.0]; expected a number"),
    ],
)
async def test_a_wrong_number_of_rewards_names_both(given: Any, said: str) -> None:
    def wrong(trajectories: list[Trajectory]) -> Any:
        return given

    scores = await RewardCalculator([component(wrong)]).score([make_episode("x")] * 2)

    assert [s.total for s in scores] == [None, None]
    assert scores[0].error is not None and said in scores[0].error.reason
    kind = "value" if "expected a number" in said else "count"
    assert scores[0].scoring is not None and scores[0].scoring.failures == {"r": kind}


def component(function: Callable[..., Any], name: str = "r", **options: Any) -> RewardComponent:
    return RewardComponent(name, ComponentKind.ROLLOUT, function, **options)


async def totals(part: RewardComponent, count: int) -> list[float | None]:
    scores = await RewardCalculator([part]).score([make_episode("x")] * count)
    return [score.total for score in scores]


def of_visit(text: str, visit: int) -> Trajectory:
    episode = make_episode(text)
    return replace(episode, seed=replace(episode.seed, visit=visit))


@pytest.mark.parametrize("mark", [batch_reward, group_reward])
@pytest.mark.parametrize("mended", [False, True])
async def test_a_value_that_is_none_is_asked_for_again_and_costs_its_episode_alone(
    mark: Callable[[Any], Any], mended: bool
) -> None:
    calls = 0

    @mark
    def function(things: Any) -> list[Any]:
        nonlocal calls
        calls += 1
        return [1.0, None, 2.0 if mended and calls == 2 else float("nan")]

    calculator = RewardCalculator(
        [RewardComponent("r", ComponentKind.ROLLOUT, function, retries=1)]
    )
    scored = await calculator.score([make_episode("x") for _ in range(3)])
    assert calls == 2
    assert [one.total for one in scored] == [1.0, None, 2.0 if mended else None]
    assert [one.dropped for one in scored] == [False, False, not mended]
    failures = [one.scoring and dict(one.scoring.failures) for one in scored]
    assert failures == [{}, {}, {} if mended else {"r": "value"}]


def test_the_failure_of_many_values_survives_pickling() -> None:
    failure = pickle.loads(pickle.dumps(BadValues("r", [1.0, BadValue("no")])))
    assert failure.values[0] == 1.0
    assert str(failure.values[1]) == "no"
