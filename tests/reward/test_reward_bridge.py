"""`RewardBridge`: raw rewards on episodes, normalised ones behind advantages, statistics kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from reward_episodes import make_episode

from bridges import RewardBridge
from retrain.config.rewards import RewardSetupConfig
from retrain.errors import DataError
from retrain.reward import build_reward_calculator, group_advantages
from retrain.sample import Status
from retrain.types import Group, Task, Trajectory

TASK = Task("t", "Go.")


def length(trajectory: Trajectory) -> float:
    return float(len(trajectory.response_text))


def fails_on_six(trajectory: Trajectory) -> float | None:
    if len(trajectory.response_text) == 6:
        raise ValueError("six")
    return None if len(trajectory.response_text) == 7 else 1.0


def bridge(**section: Any) -> RewardBridge:
    component = section.pop("component", {})
    configs = {f"{__name__}:length": component, **section.pop("others", {})}
    setup = RewardSetupConfig.model_validate({"rollout_reward_configs": configs, **section})
    return RewardBridge(build_reward_calculator(setup, environment_rewards=False))


async def play(rewards: RewardBridge, index: int, lengths: Sequence[int]) -> Group:
    episodes = [make_episode("x" * n) if n >= 0 else failed() for n in lengths]
    return await rewards.group(index, TASK, index, episodes)


def failed() -> Trajectory:
    return make_episode("x", status=Status.FAILED)


def trained(group: Group) -> list[float | None]:
    return [t.trained_reward if t.valid else None for t in group.trajectories]


async def test_without_normalisation_nothing_is_recorded() -> None:
    group = await play(bridge(), 0, [1, 3])
    assert [t.scoring for t in group.trajectories] == [None, None]
    assert group.advantages == group_advantages("grpo", [1.0, 3.0])


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        ({"normalisation": "rank"}, [-0.5, 0.0, None, 0.5]),
        ({"normalisation": "clip", "clip": [2, 8]}, [2.0, 5.0, None, 8.0]),
        ({"normalisation": "rank", "clip": [-0.1, 0.2]}, [-0.1, 0.0, None, 0.2]),
    ],
)
async def test_raw_values_stay_and_advantages_come_from_normalised_ones(
    component: dict[str, Any], expected: list[float | None]
) -> None:
    group = await play(bridge(component=component), 0, [1, 5, -1, 50])

    assert trained(group) == expected
    assert [t.reward for t in group.trajectories] == [1.0, 5.0, None, 50.0]
    assert [dict(t.rewards) for t in group.trajectories] == [
        {"length": 1.0},
        {"length": 5.0},
        {},
        {"length": 50.0},
    ]
    last = group.trajectories[3].scoring
    assert last is not None and dict(last.normalised) == {"length": expected[3]}
    assert group.advantages == group_advantages("grpo", expected)


async def test_a_missing_or_dropped_component_leaves_its_own_statistics_alone() -> None:
    others = {f"{__name__}:fails_on_six": {"normalisation": "group"}}
    group = await play(bridge(component={"normalisation": "rank"}, others=others), 0, [1, 6, 7, 9])

    assert trained(group) == [-0.5, None, 0.0, 0.5]
    assert group.trajectories[1].error is not None
    missing = group.trajectories[2].scoring
    assert missing is not None and dict(missing.normalised) == {"length": 0.0}


async def test_the_total_is_normalised_after_the_combination() -> None:
    group = await play(bridge(normalisation="group", component={"weight": -2.0}), 0, [1, 3])
    assert trained(group) == pytest.approx([2**-0.5, -(2**-0.5)], abs=1e-5)
    assert [t.reward for t in group.trajectories] == [-2.0, -6.0]


BATCHES = [[[1, 5], [3, -1]], [[8, 2], [0, 4]], [[9, 9], [7, 3]]]


async def settled(rewards: RewardBridge, batches: Sequence[Any], at: int = 0) -> list[Any]:
    found = []
    for number, batch in enumerate(batches):
        groups = [await play(rewards, at + number, lengths) for lengths in batch]
        found += [(trained(g), g.advantages) for g in rewards.settle(groups)]
    return found


async def test_a_resumed_run_goes_on_bit_by_bit() -> None:
    setup: dict[str, Any] = {"component": {"normalisation": "running"}, "normalisation": "running"}
    whole = bridge(**setup)
    expected = await settled(whole, BATCHES)

    first = bridge(**setup)
    found = await settled(first, BATCHES[:2])
    second = bridge(**setup)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found += await settled(second, BATCHES[2:], at=2)

    assert found == expected
    assert json.dumps(second.state_dict()) == json.dumps(whole.state_dict())
    assert whole.state_dict()["moments"]["length"]["count"] == 11, "the failed one is not seen"


async def test_settling_changes_nothing_where_nothing_runs() -> None:
    rewards = bridge(component={"normalisation": "rank"})
    group = await play(rewards, 0, [1, 2])
    assert rewards.settle([group])[0] is group
    assert rewards.state_dict() == {"moments": {}}


async def test_the_order_in_which_groups_end_does_not_count() -> None:
    one, other = (bridge(component={"normalisation": "running"}) for _ in range(2))
    forwards = [await play(one, n, lengths) for n, lengths in enumerate(BATCHES[0])]
    backwards = [await play(other, n, lengths) for n, lengths in reversed([*enumerate(BATCHES[0])])]
    found = [trained(g) for g in other.settle(sorted(backwards, key=lambda g: g.index))]
    assert [trained(g) for g in one.settle(forwards)] == found


async def test_a_state_of_other_components_is_forgotten_and_a_damaged_one_refused() -> None:
    rewards = bridge(component={"normalisation": "running"})
    kept = {"count": 2, "mean": 1.0, "squares": 2.0}
    rewards.load_state_dict({"moments": {"length": kept, "gone": kept}})
    assert rewards.state_dict() == {"moments": {"length": kept}}
    rewards.forget()
    assert rewards.state_dict() == {"moments": {}}
    for damaged in ({}, {"moments": None}, {"moments": {"length": 3}}):
        with pytest.raises(DataError, match=r"reward state.*damaged"):
            rewards.load_state_dict(damaged)


def breaks_on_ranks(values: dict[str, float], weights: dict[str, float]) -> float:
    return 1.0 / (values["length"] if values["length"] != 0.5 else 0.0)


async def test_an_episode_whose_normalised_reward_cannot_be_combined_trains_nothing() -> None:
    rewards = bridge(component={"normalisation": "rank"}, combination=f"{__name__}:breaks_on_ranks")
    group = await play(rewards, 0, [1, 2, 4, 5])
    assert [t.valid for t in group.trajectories] == [True, True, True, False]
    error = group.trajectories[3].error
    assert error is not None and "ZeroDivisionError" in error.reason
    assert group.advantages[3] == 0.0


async def test_masked_episodes_are_not_normalised() -> None:
    rewards = bridge(component={"normalisation": "rank"})
    scored = await rewards.score([make_episode("x" * n) for n in (1, 2, 3)])
    masked = (replace(scored[0], masked=True), *scored[1:])
    group = rewards.advantages(Group(0, TASK, 0, masked))
    assert trained(group) == [None, -0.5, 0.5]
