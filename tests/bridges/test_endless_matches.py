"""A match ends when the model plays nobody in it any more, whatever the players would still do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from endless_match import FIRST, SECOND, THIRD

from bridges import (
    EnvironmentBridge,
    EpisodeLimits,
    FailurePolicy,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import match_rounds
from retrain.environment.registry import make_environment_factory
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.types import StopReason, Task, Trajectory

TAKES_ONE = "nim_match:takes_one"
MASKING = FailurePolicy(actions={}, max_failure_rate=1.0)


async def played(
    renderer: DeltaRenderer,
    encode: Any,
    agents: Mapping[str, str],
    limits: EpisodeLimits,
    only_third_after: int | None = None,
) -> tuple[Trajectory, ...]:
    """The episodes of one match."""
    arguments = {"only_third_after": only_third_after}
    factory = make_environment_factory("endless_match:Endless", arguments, agents)
    calculator = RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
    bridge = RolloutBridge(
        EnvironmentBridge(renderer, factory, limits),
        RewardBridge(calculator),
        ScriptedEngine(lambda *_: "on I go<|im_end|>", encode=encode),
        RolloutSettings(
            params=SamplingParams(max_tokens=20), n_samples=3 - len(agents), policy=MASKING
        ),
    )
    (group,) = await bridge.collect([GroupRequest(0, Task("t", "A walk."), 0)])
    return group.trajectories


@pytest.mark.parametrize(
    "agents",
    [{THIRD: TAKES_ONE}, {SECOND: TAKES_ONE, THIRD: TAKES_ONE}],
    ids=["two_seats", "one_seat"],
)
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (EpisodeLimits(max_response_len=600, max_turns=2), StopReason.MAX_TURNS),
        (EpisodeLimits(max_response_len=600, max_context_len=100), StopReason.CONTEXT_OVERFLOW),
    ],
)
async def test_a_match_that_every_seat_has_left_is_cut_with_the_seats_own_reasons(
    renderer: DeltaRenderer,
    encode: Any,
    agents: Mapping[str, str],
    limits: EpisodeLimits,
    reason: StopReason,
) -> None:
    episodes = await played(renderer, encode, agents, limits)
    assert {(one.status, one.stop_reason) for one in episodes} == {(Status.TRUNCATED, reason)}
    assert all(one.valid and one.reward == len(one.turns) >= 2 for one in episodes)


@pytest.mark.parametrize(
    "agents", [{THIRD: TAKES_ONE}, {SECOND: TAKES_ONE, THIRD: TAKES_ONE}], ids=["two", "one"]
)
async def test_a_world_that_never_asks_a_seat_again_fails_its_match(
    renderer: DeltaRenderer, encode: Any, agents: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_rounds, "ALONE", 50)
    limits = EpisodeLimits(max_response_len=600)
    episodes = await played(renderer, encode, agents, limits, only_third_after=6)
    assert {one.status for one in episodes} == {Status.FAILED}
    reasons = [one.error.reason for one in episodes if one.error is not None]
    assert all("players alone (third and so on) for 50 rounds in a row" in r for r in reasons)
    assert len(reasons) == 3 - len(agents) and FIRST not in "".join(reasons)
