"""Combination, normalisation and what is recorded over turns."""

from __future__ import annotations

import json
import math
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_episodes import make_episode

from retrain.errors import DataError, RewardFailure
from retrain.reward import ComponentKind, Normalisation, Normalising, RewardCalculator
from retrain.reward.combination import COMBINATIONS, Combination
from retrain.reward.components import RewardComponent
from retrain.reward.distribution import Distribution, discounted, spread
from retrain.reward.normalisation import Moments, centred_ranks, standardised
from retrain.reward.shaping import TOTAL, Shaping
from retrain.types import Action, FinishReason, Turn

finite = st.floats(-1e6, 1e6)
groups = st.lists(finite, min_size=1, max_size=12)
WEIGHTS = {"a": 2.0, "b": -1.0, "c": 0.5}


def combined(name: str, values: dict[str, float], **options: Any) -> float:
    return Combination(COMBINATIONS.get(name), WEIGHTS, **options)(values)


@pytest.mark.parametrize(
    ("name", "expected"), [("sum", -1.0), ("mean", -1 / 3.5), ("min", -4.0), ("product", -8.0)]
)
def test_combinations_of_weighted_values(name: str, expected: float) -> None:
    assert combined(name, {"a": 1.0, "b": 4.0, "c": 2.0}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("sum", 3.0), ("mean", 1.2), ("min", 1.0), ("product", 2.0)]
)
def test_a_missing_component_is_left_out(name: str, expected: float) -> None:
    assert combined(name, {"a": 1.0, "c": 2.0}) == pytest.approx(expected)


@given(st.sets(st.sampled_from("abc"), min_size=1), finite)
def test_a_rescaled_sum_keeps_the_scale_of_a_whole_one(present: set[str], value: float) -> None:
    """Where all components agree up to the sign of their weights, none needs to be there."""
    values = {name: math.copysign(value, WEIGHTS[name]) for name in sorted(present)}
    whole = {name: math.copysign(value, WEIGHTS[name]) for name in WEIGHTS}
    expected = combined("sum", whole)
    assert combined("sum", values, rescale=True) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_combination_of_ones_own_fails_as_a_reward_does() -> None:
    def own(values: Any, weights: Any) -> float:
        return values["missing"]

    with pytest.raises(RewardFailure, match=r"the combined reward of .*KeyError: 'missing'"):
        Combination(own, WEIGHTS)({"a": 1.0})
    with pytest.raises(RewardFailure, match="expected a finite number"):
        Combination(lambda values, weights: math.nan, WEIGHTS)({"a": 1.0})
    with pytest.raises(RewardFailure, match="there is no mean"):
        Combination(COMBINATIONS.get("mean"), {"a": 0.0})({"a": 1.0})


@given(groups)
def test_group_normalisation_is_a_z_score(values: list[float]) -> None:
    found = standardised(values)
    if min(values) == max(values):
        assert found == [0.0] * len(values)
    else:
        expected = [(v - fmean(values)) / (stdev(values) + 1e-6) for v in values]
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(groups, st.randoms())
def test_ranks_depend_on_the_order_of_the_values_alone(values: list[float], random: Any) -> None:
    ranks = centred_ranks(values)
    assert sum(ranks) == pytest.approx(0.0, abs=1e-9)
    assert all(-0.5 <= rank <= 0.5 for rank in ranks)
    for one, first in zip(values, ranks, strict=True):
        for other, second in zip(values, ranks, strict=True):
            assert (one < other) == (first < second)
    order = list(range(len(values)))
    random.shuffle(order)
    assert centred_ranks([values[n] for n in order]) == [ranks[n] for n in order]
    assert centred_ranks([4.0, 1.0, 1.0]) == [0.5, -0.25, -0.25]


@given(st.lists(finite, min_size=2, max_size=50))
def test_moments_are_those_of_all_values_and_survive_json_bit_by_bit(values: list[float]) -> None:
    moments = Moments()
    for value in values[:-1]:
        moments.add(value)
    copy = Moments.of_state(json.loads(json.dumps(moments.state_dict())), "x")
    assert copy == moments
    for each in (moments, copy):
        each.add(values[-1])
    assert (copy.mean.hex(), copy.squares.hex()) == (moments.mean.hex(), moments.squares.hex())
    assert moments.mean == pytest.approx(fmean(values), rel=1e-9, abs=1e-6)
    assert moments.std == pytest.approx(stdev(values), rel=1e-6, abs=1e-3)


@pytest.mark.parametrize(
    "state", [None, {}, {"count": -1, "mean": 0.0, "squares": 0.0}, {"count": 1, "mean": "x"}]
)
def test_a_damaged_state_is_refused(state: Any) -> None:
    with pytest.raises(DataError, match=r"reward state of 'a': is damaged"):
        Moments.of_state(state, "a")


def test_clip_bounds_alone_or_after_another_normalisation() -> None:
    moments = Moments()
    assert Normalising(Normalisation.CLIP, (-1.0, 2.0)).apply([-5, 0.5, 7], moments) == [-1, 0.5, 2]
    assert Normalising(Normalisation.GROUP, (-0.1, 0.1)).apply([1.0, 5.0], moments) == [-0.1, 0.1]
    assert not Normalising().changes


def test_each_component_is_normalised_then_the_combination() -> None:
    components = {
        "a": Normalising(Normalisation.RANK),
        "b": Normalising(),
        "c": Normalising(Normalisation.CLIP, (0.0, 1.0)),
    }
    shaping = Shaping(components, Combination(weights=WEIGHTS), Normalising(clip=(-1.0, 1.0)))
    rows = [{"a": 10.0, "b": 0.5, "c": 4.0}, {"a": 20.0, "b": -0.25}, {"b": 3.0}]

    shaped = shaping.group(rows, {})

    assert [one.normalised for one in shaped] == [{"a": -0.5, "c": 1.0}, {"a": 0.5}, {}]
    # 2*-0.5 - 0.5 + 0.5*1 = -1;  2*0.5 + 0.25 = 1.25 -> 1;  -3 -> -1
    assert [one.trained for one in shaped] == [-1.0, 1.0, -1.0]
    assert not shaping.running


def test_running_statistics_see_a_whole_batch_before_it_is_normalised() -> None:
    running = Normalising(Normalisation.RUNNING)
    shaping = Shaping({"a": running}, Combination(weights={"a": 2.0}), running)
    moments: dict[str, Moments] = {}
    batch = [[{"a": 1.0}, {"a": 2.0}], [{"a": 6.0}]]

    assert [one.trained for one in shaping.group(batch[0], moments)] == pytest.approx(
        [2.0, 4.0], rel=1e-5
    ), "nothing is seen yet, so nothing is moved"
    shaping.learn(batch, moments)

    z = [(value - 3) / (stdev([1.0, 2.0, 6.0]) + 1e-6) for value in (1.0, 2.0, 6.0)]
    spread_of_totals = stdev(2 * value for value in z) + 1e-6
    found = [one for group in batch for one in shaping.group(group, moments)]
    assert [one.normalised["a"] for one in found] == pytest.approx(z)
    assert [one.trained for one in found] == pytest.approx([2 * v / spread_of_totals for v in z])
    assert set(moments) == {"a", TOTAL}


def test_a_component_may_be_called_total() -> None:
    running = Normalising(Normalisation.RUNNING)
    shaping = Shaping({"total": running}, Combination(weights={"total": 2.0}), running)
    moments: dict[str, Moments] = {}
    shaping.learn([[{"total": 1.0}, {"total": 3.0}]], moments)
    assert moments["total"].mean == 2.0
    assert shaping.group([{"total": 2.0}], moments)[0].normalised == {"total": 0.0}


def test_what_is_too_large_to_normalise_is_not_trained_on() -> None:
    shaping = Shaping({}, Combination(weights={"a": 1.0}), Normalising(Normalisation.GROUP))
    low, high, _ = shaping.group([{"a": -1.7e308}, {"a": 1.7e308}, {"a": 1.7e308}], {})
    assert (low.trained, high.trained) == (None, 0.0)
    assert "finite" in str(low.failure)


def test_a_rescaled_sum_that_overflows_is_a_failure() -> None:
    combination = Combination(weights={"a": 1.0, "b": 1.0}, rescale=True)
    with pytest.raises(RewardFailure, match="finite"):
        combination({"a": 1.7e308})


def turn(tokens: int) -> Turn:
    return Turn(tuple(range(tokens)), (0.0,) * tokens, FinishReason.STOP, Action())


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("last", (0.0, 0.0, 6.0)),
        ("own", (0.0, 0.0, 6.0)),
        ("uniform", (2.0, 2.0, 2.0)),
        ("discounted", (6 / 7, 12 / 7, 24 / 7)),
        ("tokens", (1.0, 4.0, 1.0)),
    ],
)
def test_a_value_is_spread_over_turns(how: str, expected: tuple[float, ...]) -> None:
    turns = [turn(1), turn(4), turn(1)]
    assert spread(6.0, Distribution(how), turns, 0.5) == pytest.approx(expected)


@given(
    finite,
    st.sampled_from(Distribution),
    st.lists(st.integers(0, 9), min_size=1),
    st.floats(0.1, 1),
)
def test_the_parts_sum_to_the_value(
    value: float, how: Distribution, tokens: list[int], discount: float
) -> None:
    parts = spread(value, how, [turn(count) for count in tokens], discount)
    assert len(parts) == len(tokens)
    assert math.fsum(parts) == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_step_rewards_are_discounted_from_the_first_turn_on() -> None:
    assert discounted([1.0, 2.0, 4.0], 0.5) == (1.0, 1.0, 1.0)


async def test_turns_are_recorded_where_it_is_asked() -> None:
    own = Distribution.OWN
    step = RewardComponent(
        "s",
        ComponentKind.STEP,
        lambda turn, trajectory: len(turn.action.text),
        discount=0.5,
        distribution=own,
    )
    final = RewardComponent(
        "r", ComponentKind.ROLLOUT, lambda trajectory: 3.0, distribution=Distribution.UNIFORM
    )
    environment = RewardComponent("environment", ComponentKind.ENVIRONMENT, discount=0.1)
    penalised = RewardComponent(
        "p",
        ComponentKind.STEP,
        lambda turn, trajectory: 1.0,
        verifiers=(lambda trajectory: False,),
        verifier_penalty=-2.0,
        distribution=own,
    )
    calculator = RewardCalculator([environment, step, final, penalised])
    (scored,) = await calculator.score([make_episode("aa", "bb", "cccc", rewards=[0, 0, 1.0])])

    assert scored.components == pytest.approx({"environment": 0.01, "s": 4.0, "r": 3.0, "p": -2.0})
    assert scored.scoring is not None
    assert scored.scoring.turns == {
        "s": (2.0, 1.0, 1.0),
        "r": (1.0, 1.0, 1.0),
        "p": (0.0, 0.0, -2.0),
    }
