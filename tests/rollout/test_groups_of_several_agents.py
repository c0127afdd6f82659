"""Advantages, filters and metrics where the episodes of a group are those of several agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridges import RewardBridge
from retrain.report.batch_metrics import batch_metrics
from retrain.reward.advantages import by_agent, group_advantages
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.filters import FilterResult, check_reward_nonzero_std
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Group,
    Segment,
    StopReason,
    Task,
    Trajectory,
    Turn,
)

TASK = Task("t", "Play.")
AGENTS = ("first", "second")


def group_of(rewards: Sequence[float | None]) -> Group:
    """Episodes of the two agents in turn; None is one that was aborted."""
    return Group(0, TASK, 0, tuple(episode(n, reward) for n, reward in enumerate(rewards)))


def episode(number: int, reward: float | None) -> Trajectory:
    info = {"success": (reward or 0) > 0}
    turn = Turn((5, 6), (-1.0, -1.0), FinishReason.STOP, Action("x"), info=info)
    over = Status.COMPLETED if reward is not None else Status.ABORTED
    return Trajectory(
        TASK,
        EpisodeSeed(0, "train", "t", 0, number),
        (Segment((1, 2), (turn,) * (1 + number % 2)),),
        over,
        StopReason.TERMINATED,
        reward=reward,
        agent=AGENTS[number % 2],
    )


def test_slots_stand_by_their_agent() -> None:
    assert by_agent(["b", "a", "b", None]) == [[0, 2], [1], [3]]


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "gspo"])
def test_an_agent_is_compared_with_itself(name: str) -> None:
    rewards = [3.0, -1.0, 1.0, -1.0, None, 5.0]
    agents = [*AGENTS, *AGENTS, *AGENTS]
    found = group_advantages(name, rewards, agents)
    first = group_advantages(name, [3.0, 1.0, None])
    second = group_advantages(name, [-1.0, -1.0, 5.0])
    assert found == (first[0], second[0], first[1], second[1], 0.0, second[2])
    assert group_advantages(name, rewards) != found


def test_an_agent_of_one_valid_episode_has_no_advantage() -> None:
    assert group_advantages("grpo", [3.0, 1.0, None, 2.0], [*AGENTS, *AGENTS])[0] == 0.0


@pytest.mark.parametrize(
    ("rewards", "kept"),
    [
        ([1.0, -1.0, 1.0, -1.0], False),
        ([1.0, -1.0, -1.0, 1.0], True),
        ([1.0, -1.0, 1.0, 1.0], True),
        ([1.0, None, 1.0, -1.0], False),
        ([1.0, -1.0, None, None], False),
    ],
)
def test_a_group_teaches_only_where_one_agent_s_rewards_differ(
    rewards: Sequence[float | None], kept: bool
) -> None:
    """Where one seat always wins, the group's spread is the game's and not the policy's."""
    component = RewardComponent("environment", ComponentKind.ENVIRONMENT)
    group = RewardBridge(RewardCalculator([component])).advantages(group_of(rewards))
    assert check_reward_nonzero_std(group).keep is kept is any(group.advantages)
    compared = sum(reward is not None for reward in rewards) > 2
    zero = batch_metrics([group])["rollout/zero_variance_groups"]
    assert zero == (compared and not kept)


def test_one_of_each_agent_is_no_comparison() -> None:
    assert check_reward_nonzero_std(group_of([1.0, -1.0])) == FilterResult(
        False, "fewer_than_two_valid"
    )


@pytest.mark.parametrize("rewards", [[1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
def test_a_baseline_of_the_whole_group_compares_all(rewards: Sequence[float]) -> None:
    component = RewardComponent("environment", ComponentKind.ENVIRONMENT)
    bridge = RewardBridge(RewardCalculator([component]), by_agent=False)
    group = bridge.advantages(group_of(rewards))
    assert any(group.advantages) and check_reward_nonzero_std(group).keep
    assert batch_metrics([group])["rollout/zero_variance_groups"] == 0
    assert not check_reward_nonzero_std(group, min_std=2.0).keep


def test_an_agent_that_was_cut_before_its_report_did_not_succeed() -> None:
    first, second, *others = group_of([1.0, -1.0, 1.0, -1.0]).trajectories
    turn = replace(first.turns[-1], info={})
    cut = replace(first, segments=(Segment((1, 2), (turn,)),), status=Status.TRUNCATED)
    metrics = batch_metrics([Group(0, TASK, 0, (cut, second, *others))])
    assert metrics["agent/first/success"] == 0.5


def test_an_opponent_that_the_model_plays_is_no_attempt() -> None:
    group = group_of([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    episodes = tuple(replace(t, masked=t.agent == "second") for t in group.trajectories)
    group = replace(group, trajectories=episodes)
    metrics = batch_metrics([group], prefix="eval/")
    assert metrics["eval/success"] == metrics["eval/pass@1"] == 0.75
    assert metrics["eval/reward/mean"] == 0.5 and metrics["eval/agent/second/success"] == 0.25


def test_each_agent_has_metrics_of_its_own() -> None:
    metrics = batch_metrics([group_of([1.0, -1.0, 0.5, None])])
    assert {name: value for name, value in metrics.items() if name.startswith("agent/")} == {
        "agent/first/reward": 0.75,
        "agent/first/success": 1.0,
        "agent/first/turns": 1.0,
        "agent/second/reward": -1.0,
        "agent/second/success": 0.0,
        "agent/second/turns": 2.0,
    }
    assert metrics["reward/std"] == pytest.approx(0.5 / 2**0.5)
