from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from executed_episodes import make_pool, requests, rollouts

from retrain.environment import make_environment_factory
from retrain.environment.base import Environment
from retrain.errors import RewardFailure
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.completions import CompletionsReward
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.executors.world import MOST_CHARACTERS, RemoteWorld, capture
from retrain.types import Message, Trajectory

PATH = "executor_worlds:Open"


def solved(environments: Sequence[Any], **kwargs: Any) -> list[float]:
    return [e.limit + e.success + len(e.log) + e.closed for e in environments]


def called(environments: Sequence[Any], **kwargs: Any) -> list[float]:
    return [float(e.total()) for e in environments]


async def score(renderer: DeltaRenderer, make: Any, function: Any) -> list[Trajectory]:
    bridge = rollouts(renderer, make)
    reward = CompletionsReward(function, renderer.text)
    component = RewardComponent("mine", ComponentKind.ROLLOUT, function=reward)
    bridge.rewards.calculator = RewardCalculator([component])
    (group,) = await bridge.collect(requests(1))
    return list(group.trajectories)


async def test_a_reward_function_reads_attributes_as_it_does_locally(
    renderer: DeltaRenderer,
) -> None:
    pool = make_pool(PATH, worlds=True)
    try:
        remote = await score(renderer, pool.make, solved)
    finally:
        pool.close()
    local = await score(renderer, make_environment_factory(PATH), solved)
    assert [t.reward for t in remote] == [t.reward for t in local] == [10.0] * 4


async def test_a_method_cannot_be_called_and_the_sample_is_dropped_with_the_reason(
    renderer: DeltaRenderer,
) -> None:
    pool = make_pool(PATH, worlds=True)
    try:
        (first, *_) = await score(renderer, pool.make, called)
    finally:
        pool.close()
    assert first.reward is None
    assert first.error is not None
    assert "the environment's 'total' can be called only where the environment is" in (
        first.error.reason
    )
    assert "rollout.executor: local" in first.error.reason


class World:
    __slots__ = ("kept", "long", "messages", "pairs", "weights")

    def __init__(self) -> None:
        self.kept = {"a": (1, None)}
        self.long = "x" * MOST_CHARACTERS
        self.messages = [Message("user", "hello")]
        self.pairs = {1: "one"}

    @property
    def broken(self) -> int:
        raise OSError("gone")


def test_what_cannot_cross_says_why_even_where_a_default_is_asked_for() -> None:
    world = RemoteWorld(capture(World()))
    assert world.kept == {"a": [1, None]}
    for name, why in {
        "long": "is longer than 1,000,000 characters",
        "messages": r"messages\[0\]: is a Message, which cannot cross",
        "pairs": "has the key 1; only text keys",
        "broken": "raised OSError: gone",
        "weights": "raised AttributeError",
    }.items():
        with pytest.raises(RewardFailure, match=why):
            getattr(world, name, None)
    with pytest.raises(AttributeError, match="'World' object has no attribute 'other'"):
        world.other  # noqa: B018
    assert not hasattr(world, "other")


async def test_nothing_is_kept_where_no_reward_function_reads_it(renderer: DeltaRenderer) -> None:
    pool = make_pool(PATH, worlds=False)
    made: list[Environment] = []

    def make() -> Environment:
        made.append(environment := pool.make())
        return environment

    try:
        await rollouts(renderer, make).collect(requests(1))
    finally:
        pool.close()
    with pytest.raises(AttributeError):
        made[0].world.log  # noqa: B018
