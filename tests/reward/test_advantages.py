"""Group advantages."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import ConfigError
from retrain.reward import ADVANTAGES, group_advantages

NAMES = ("grpo", "dr_grpo", "rloo", "gspo")
REWARDS = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=16)


def test_the_formulas_on_a_group_worked_by_hand() -> None:
    rewards = [1.0, 0.0, 0.0, 1.0]
    std = math.sqrt(1 / 3)

    assert group_advantages("dr_grpo", rewards) == (0.5, -0.5, -0.5, 0.5)
    assert group_advantages("rloo", rewards) == pytest.approx((2 / 3, -2 / 3, -2 / 3, 2 / 3))
    assert group_advantages("grpo", rewards) == pytest.approx(
        [sign * 0.5 / (std + 1e-6) for sign in (1, -1, -1, 1)], rel=1e-14
    )
    assert group_advantages("gspo", rewards) == group_advantages("grpo", rewards)


@given(REWARDS)
def test_formulas_agree_with_their_definitions(rewards: list[float | None]) -> None:
    valid = [reward for reward in rewards if reward is not None]
    if len(set(valid)) < 2:
        return
    mean, std = statistics.fmean(valid), statistics.stdev(valid)
    others = {r: (math.fsum(valid) - r) / (len(valid) - 1) for r in valid}
    expected = {
        "dr_grpo": lambda r: r - mean,
        "grpo": lambda r: (r - mean) / (std + 1e-6),
        "rloo": lambda r: r - others[r],
    }
    for name, formula in expected.items():
        computed = group_advantages(name, rewards)
        for reward, advantage in zip(rewards, computed, strict=True):
            wanted = 0.0 if reward is None else formula(reward)
            assert advantage == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(REWARDS, st.sampled_from(NAMES))
def test_invalid_slots_get_zero_and_leave_the_statistics(
    rewards: list[float | None], name: str
) -> None:
    computed = group_advantages(name, rewards)
    valid = [reward for reward in rewards if reward is not None]
    kept = tuple(a for a, reward in zip(computed, rewards, strict=True) if reward is not None)

    assert len(computed) == len(rewards)
    assert all(a == 0.0 for a, r in zip(computed, rewards, strict=True) if r is None)
    assert kept == group_advantages(name, valid)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rewards", [[], [None], [3.0], [None, 3.0, None], [None, None]])
def test_fewer_than_two_valid_slots_give_no_advantage(
    name: str, rewards: list[float | None]
) -> None:
    assert group_advantages(name, rewards) == (0.0,) * len(rewards)


@given(st.sampled_from(NAMES), st.floats(-1e300, 1e300), st.integers(2, 17))
def test_identical_rewards_give_exactly_zero(name: str, reward: float, size: int) -> None:
    assert group_advantages(name, [reward] * size) == (0.0,) * size


@pytest.mark.parametrize("name", NAMES)
def test_huge_and_shifted_rewards_stay_accurate(name: str) -> None:
    small = group_advantages(name, [1.0, 2.0, 4.0])
    shifted = group_advantages(name, [1e9 + 1.0, 1e9 + 2.0, 1e9 + 4.0])
    huge = group_advantages(name, [1e300, -1e300, 5e299])

    assert shifted == pytest.approx(small, rel=1e-6)
    assert all(map(math.isfinite, huge))
    assert sum(advantage / 1e300 for advantage in huge) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        group_advantages("grpo", [0.0, reward])


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'grpo'"):
        group_advantages("grpoo", [0.0, 1.0])
    assert set(ADVANTAGES.names()) == set(NAMES)
