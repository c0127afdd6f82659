"""A whole rollout whose judge fails: the run goes on by the component's policy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from echo_environment import Echo

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from aiohttp import web
from scoring_server import ScoringServer, completion, says

from bridges import EnvironmentBridge, RewardBridge, RolloutBridge, RolloutSettings
from retrain.config.rewards import RewardSetupConfig
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import Boundary, RewardFailure
from retrain.reward.setup import build_reward_calculator
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task

STOP = "<|im_end|>"
REQUESTS = [GroupRequest(i, Task(f"t{i}", f"question {i}"), 0) for i in range(4)]
_WORDS = re.compile(r"<<<response \w+\n(.*?)\n\w+ response>>>", re.DOTALL)


async def moody(request: web.Request, body: Any) -> web.StreamResponse:
    """Grades by length, and gives prose for one word, garbage for two and an error for three."""
    words = len(_WORDS.findall(body["messages"][1]["content"])[0].split())
    if words == 1:
        return web.json_response(completion("I would rather not."))
    if words == 2:
        return web.Response(text="<html>")
    if words == 3:
        return web.Response(text="broken", status=400)
    return web.json_response(completion(f"[[{words}]]"))


@pytest.fixture
def judge() -> Iterator[ScoringServer]:
    server = ScoringServer(moody)
    yield server
    server.close()


@pytest.fixture
def rollout(
    judge: ScoringServer, bridge: Callable[..., EnvironmentBridge], encode: Any
) -> Callable[..., RolloutBridge]:
    def make(**policy: Any) -> RolloutBridge:
        params = {"base_url": judge.url, "model": "m", "backoff": 0.01}
        setup = RewardSetupConfig.model_validate(
            {
                "rollout_reward_configs": {"llm_judge": {"params": params, **policy}},
                "environment_reward_weight": 0,
            }
        )
        calculator = build_reward_calculator(setup, environment_rewards=False)
        engine = ScriptedEngine(
            lambda ids, params, session, seed: "word " * (seed % 9 + 1) + STOP, encode=encode
        )
        settings = RolloutSettings(params=SamplingParams(max_tokens=100), n_samples=8)
        return RolloutBridge(bridge(Echo), RewardBridge(calculator, "grpo"), engine, settings)

    return make


def words_of(group: Group) -> list[int]:
    return [len(t.turns[-1].action.text.split()) for t in group.trajectories]


async def test_what_the_judge_cannot_grade_is_masked_and_the_rest_is_trained(rollout: Any) -> None:
    played = rollout()
    before = len(asyncio.all_tasks())
    groups = await played.collect(REQUESTS)
    seen = set()
    for group in groups:
        for words, episode in zip(words_of(group), group.trajectories, strict=True):
            seen.add(words)
            if words > 3:
                assert episode.reward == pytest.approx((words - 1) / 9)
            else:
                assert episode.reward is None and not episode.valid
                assert episode.error is not None and episode.error.boundary is Boundary.REWARD
                assert "llm_judge: POST http://127.0.0.1" in episode.error.reason
    assert seen >= {1, 2, 3, 4}
    counted = played.rewards.calculator.measured()
    failures = counted["reward/llm_judge/failures"]
    kinds = ("no_score", "reply", "status")
    assert failures == sum(counted[f"reward/llm_judge/failures/{kind}"] for kind in kinds) > 0
    assert counted["reward/llm_judge/tokens_in"] > 0
    played.rewards.calculator.close()
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) == before


async def test_a_value_stands_in_where_the_policy_says_so(rollout: Any, judge: Any) -> None:
    judge.always = says("down", 500)
    played = rollout(on_failure="value", value=0.25)
    groups = await played.collect(REQUESTS)
    assert {t.reward for group in groups for t in group.trajectories} == {0.25}
    assert played.rewards.calculator.measured()["reward/llm_judge/breaker"] == 1.0
    played.rewards.calculator.close()


async def test_a_failure_that_raises_ends_the_rollout(rollout: Any, judge: Any) -> None:
    judge.always = says("down", 500)
    played = rollout(on_failure="raise")
    with pytest.raises(RewardFailure, match="HTTP 500: 'down'"):
        await played.collect(REQUESTS)
    played.rewards.calculator.close()
