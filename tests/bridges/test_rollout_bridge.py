"""`RolloutBridge.collect`: groups, concurrency, timeouts and failure policies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from echo_environment import Echo

from bridges import (
    EnvironmentBridge,
    FailureAction,
    FailurePolicy,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import BackendFailure, Boundary, EpisodeError, TooManyFailures
from retrain.reward import OnFailure
from retrain.reward.advantages import group_advantages
from retrain.reward.calculator import RewardCalculator, RewardComponent
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.types import Task, Trajectory

STOP = "<|im_end|>"
REQUESTS = [GroupRequest(i, Task(f"t{i}", f"question {i}"), 0) for i in range(3)]


def length_reward(trajectory: Trajectory) -> float:
    return float(len(trajectory.turns[-1].output_ids))


Make = Callable[..., RolloutBridge]


@pytest.fixture
def make(bridge: Callable[..., EnvironmentBridge]) -> Make:
    def build(
        environment: Any, engine: Any, *, reward: Any = length_reward, **settings: Any
    ) -> Any:
        limits = settings.pop("limits", {})
        calculator = RewardCalculator([RewardComponent("length", "rollout", reward)])
        options = {"params": SamplingParams(max_tokens=1000), "n_samples": 4, **settings}
        return RolloutBridge(
            bridge(environment, **limits),
            RewardBridge(calculator, "grpo"),
            engine,
            RolloutSettings(**options),
        )

    return build


@pytest.fixture
def talker(encode: Any) -> ScriptedEngine:
    """Writes between one and four words, by seed."""
    return ScriptedEngine(
        lambda ids, params, session, seed: "word " * (seed % 4 + 1) + STOP, encode=encode
    )


async def test_groups_come_back_in_order_with_all_their_slots(make: Make, talker: Any) -> None:
    groups = await make(Echo, talker).collect(REQUESTS)
    assert [group.index for group in groups] == [0, 1, 2]
    for request, group in zip(REQUESTS, groups, strict=True):
        assert group.task is request.task
        assert [t.index for t in group.trajectories] == [request.index * 4 + i for i in range(4)]
        assert [t.seed.sample_index for t in group.trajectories] == [0, 1, 2, 3]
        rewards = [t.reward for t in group.trajectories]
        assert group.advantages == group_advantages("grpo", rewards)


async def test_result_does_not_depend_on_concurrency(make: Make, talker: Any) -> None:
    def tokens(groups: Any) -> Any:
        return [[t.segments for t in group.trajectories] for group in groups]

    alone = await make(Echo, talker, concurrency=1).collect(REQUESTS)
    together = await make(Echo, talker, concurrency=12).collect(REQUESTS[::-1])
    assert tokens(alone) == tokens(together[::-1])


async def test_concurrency_is_bounded(make: Make, talker: Any) -> None:
    playing, most = 0, 0

    class Counting(Echo):
        async def reset(self, task: Task, seed: int) -> Any:
            nonlocal playing, most
            playing += 1
            most = max(most, playing)
            await asyncio.sleep(0.01)
            return await super().reset(task, seed)

        async def close(self) -> None:
            nonlocal playing
            playing -= 1

    await make(Counting, talker, concurrency=3).collect(REQUESTS)
    assert most == 3


class Fragile(Echo):
    """Breaks in chosen episodes, counted over all of them."""

    breaks: frozenset[int] = frozenset()
    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self.number = type(self).made

    async def step(self, action: Any) -> Any:
        if self.number in self.breaks:
            raise ValueError("bad move")
        return await super().step(action)


def fragile(*numbers: int) -> type[Fragile]:
    return type("Fragile", (Fragile,), {"breaks": frozenset(numbers), "made": 0})


async def test_masked_failure_keeps_its_slot_and_leaves_the_statistics(
    make: Make, talker: Any
) -> None:
    (group,) = await make(fragile(2), talker, concurrency=1).collect(REQUESTS[:1])
    failed = group.trajectories[1]
    assert (failed.status, failed.reward, group.advantages[1]) == (Status.FAILED, None, 0.0)
    rewards = [t.reward for t in group.trajectories]
    assert rewards[1] is None
    assert group.advantages == group_advantages("grpo", rewards)


async def test_retried_failure_gets_other_turn_seeds_and_the_same_world(
    make: Make, talker: Any
) -> None:
    policy = FailurePolicy(actions={Boundary.ENVIRONMENT: FailureAction.RETRY})
    rollouts = make(fragile(1), talker, concurrency=1, policy=policy, n_samples=2)
    (group,) = await rollouts.collect(REQUESTS[:1])
    retried = group.trajectories[0]
    assert (retried.status, retried.seed.attempt) == (Status.COMPLETED, 1)
    first, second = talker.calls[0].seed, talker.calls[1].seed
    assert first != second


async def test_retries_are_bounded(make: Make, talker: Any) -> None:
    policy = FailurePolicy(
        actions={Boundary.ENVIRONMENT: FailureAction.RETRY}, retries=2, max_failure_rate=1.0
    )
    environment = fragile(*range(1, 100))
    rollouts = make(environment, talker, concurrency=1, policy=policy, n_samples=1)
    (group,) = await rollouts.collect(REQUESTS[:1])
    assert environment.made == 3
    assert group.trajectories[0].status is Status.FAILED


async def test_refill_plays_another_task(make: Make, talker: Any) -> None:
    policy = FailurePolicy(actions={Boundary.ENVIRONMENT: FailureAction.REFILL})
    rollouts = make(fragile(1), talker, concurrency=1, policy=policy, n_samples=2)
    (group,) = await rollouts.collect(REQUESTS[:1], refill=lambda: REQUESTS[2])
    assert group.task is REQUESTS[2].task
    assert all(t.status is Status.COMPLETED for t in group.trajectories)


async def test_refills_are_bounded_and_name_the_task_that_was_played(
    make: Make, talker: Any
) -> None:
    policy = FailurePolicy(
        actions={Boundary.ENVIRONMENT: FailureAction.REFILL}, retries=2, max_failure_rate=1.0
    )
    others = iter([REQUESTS[1], REQUESTS[2]])
    rollouts = make(fragile(*range(1, 100)), talker, concurrency=1, policy=policy, n_samples=2)
    (group,) = await rollouts.collect(REQUESTS[:1], refill=lambda: next(others))
    assert (group.index, group.task) == (REQUESTS[2].index, REQUESTS[2].task)
    assert all(t.task is group.task for t in group.trajectories)
    assert {t.group_index for t in group.trajectories} == {group.index}


async def test_value_in_place_of_a_failed_reward_is_no_failed_episode(
    bridge: Any, talker: Any
) -> None:
    def broken(trajectory: Trajectory) -> float:
        raise ValueError("no judge")

    component = RewardComponent("judge", "rollout", broken, on_failure=OnFailure.VALUE, value=0.25)
    rollouts = RolloutBridge(
        bridge(Echo),
        RewardBridge(RewardCalculator([component]), "grpo"),
        talker,
        RolloutSettings(params=SamplingParams(max_tokens=1000), n_samples=2),
    )
    (group,) = await rollouts.collect(REQUESTS[:1])
    assert [t.reward for t in group.trajectories] == [0.25, 0.25]
    assert all(t.error is not None for t in group.trajectories), "and the failure stays visible"


async def test_raised_failure_ends_the_collection(make: Make, talker: Any) -> None:
    policy = FailurePolicy(actions={Boundary.ENVIRONMENT: FailureAction.RAISE})
    with pytest.raises(
        BackendFailure, match=r"task 't\d': environment: step: ValueError: bad move"
    ):
        await make(fragile(3), talker, policy=policy).collect(REQUESTS)


async def test_too_many_failures_stop_the_run_with_the_reasons(make: Make, talker: Any) -> None:
    with pytest.raises(TooManyFailures) as caught:
        await make(fragile(*range(8)), talker).collect(REQUESTS)
    assert "7 of 12 episodes failed" in str(caught.value)
    assert "7 x environment: step: ValueError: bad move" in str(caught.value)
    assert re.search(rf"bad move \({re.escape(__file__)}:\d+\)$", str(caught.value))


async def test_episode_timeout_is_a_failed_episode(make: Make, talker: Any) -> None:
    class Endless(Echo):
        async def step(self, action: Any) -> Any:
            await asyncio.sleep(60)

    policy = FailurePolicy(max_failure_rate=1.0)
    rollouts = make(Endless, talker, episode_timeout=0.05, policy=policy)
    (group,) = await rollouts.collect(REQUESTS[:1])
    errors = {t.error for t in group.trajectories}
    assert errors == {EpisodeError(Boundary.ENVIRONMENT, "episode: not over within 0.05 s")}


async def test_nan_reward_masks_its_slot(make: Make, talker: Any) -> None:
    def reward(trajectory: Trajectory) -> float:
        return float("nan") if trajectory.seed.sample_index == 2 else length_reward(trajectory)

    (group,) = await make(Echo, talker, reward=reward).collect(REQUESTS[:1])
    dropped = group.trajectories[2]
    assert (dropped.reward, dropped.valid, group.advantages[2]) == (None, False, 0.0)
    assert dropped.error is not None
    assert dropped.error.boundary is Boundary.REWARD


async def test_a_masked_episode_keeps_its_reward_and_has_no_vote(make: Make, talker: Any) -> None:
    bridge = make(Echo, talker)
    (group,) = await bridge.collect(REQUESTS[:1])
    masked, *others = group.trajectories
    one, all_others = replace(masked, masked=True), tuple(others)
    again = await bridge.rewards.group(0, group.task, 0, (one, *all_others))
    without = await bridge.rewards.group(0, group.task, 0, all_others)
    assert again.trajectories[0].reward == masked.reward
    assert again.advantages == (0.0, *without.advantages)


def test_policy_without_an_entry_masks() -> None:
    error = EpisodeError(Boundary.BACKEND, "odd")
    assert FailurePolicy(actions={}).action(error) is FailureAction.MASK


def test_no_episode_is_no_failure() -> None:
    FailurePolicy().check([])
