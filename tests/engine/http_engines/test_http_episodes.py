"""Whole episodes over HTTP are those of the engine in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from quick_settings import QUICK
from sglang_server import SGLangServer
from vllm_server import VLLMServer

from bridges import EnvironmentBridge, EpisodeLimits
from retrain.engine import InferenceEngine, SamplingParams
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.vllm_engine import VLLMEngine
from retrain.environment.base import Environment
from retrain.rendering import load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory

EPISODES = 6
TURNS = 3


class Chatter(Environment):
    """Answers every turn, and ends after `TURNS` of them."""

    def __init__(self) -> None:
        self.turn = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.turn += 1
        return StepResult(
            Observation((Message("user", f"go on {self.turn}"),)), 1.0, self.turn == TURNS
        )


@pytest.fixture
def play(serve: Any) -> Callable[..., Any]:
    """Plays the same episodes with any engine."""

    async def episodes(engine: InferenceEngine) -> list[Trajectory]:
        renderer = load_renderer(serve().tokenizer)
        limits = EpisodeLimits(max_response_len=200, max_tokens_per_turn=10, engine_retries=2)
        bridge = EnvironmentBridge(renderer, Chatter, limits)
        return await asyncio.gather(
            *(
                bridge.run(
                    Task(f"t{n}", f"Question {n}?"),
                    engine=engine,
                    params=SamplingParams(max_tokens=200, temperature=0.9),
                    seed=EpisodeSeed(3, "train", f"t{n}", 0, 0),
                )
                for n in range(EPISODES)
            )
        )

    return episodes


def streams(trajectories: list[Trajectory]) -> list[tuple[int, ...]]:
    return [trajectory.segments[0].ids for trajectory in trajectories]


@pytest.mark.parametrize(
    ("engine_kind", "server_kind"), [(SGLangEngine, SGLangServer), (VLLMEngine, VLLMServer)]
)
async def test_episodes_are_the_same_over_http_with_faults_on_the_way(
    serve: Any, started: Any, play: Any, engine_kind: Any, server_kind: Any
) -> None:
    expected = await play(serve().engine)
    servers = [started(server_kind, serve()) for _ in range(2)]
    engine = engine_kind([server.url for server in servers], settings=QUICK)
    await engine.start()
    servers[0].faults.extend([None, 500, None, "drop"])
    servers[1].faults.extend([503, None])
    played = await play(engine)
    assert [t.status for t in played] == [Status.COMPLETED] * EPISODES, played[0].error
    assert streams(played) == streams(expected)
    assert not any(server.faults for server in servers), "every fault happened"
    for over_http, here in zip(played, expected, strict=True):
        for there, near in zip(over_http.turns, here.turns, strict=True):
            assert there.output_logprobs == pytest.approx(near.output_logprobs, abs=1e-5)
    assert all(server.in_flight == server.sessions == 0 for server in engine._pool.servers)
    await engine.aclose()


async def test_an_episode_whose_server_is_gone_fails_as_data(
    serve: Any, started: Any, play: Any
) -> None:
    server = started(SGLangServer, serve())
    engine = SGLangEngine(server.url, settings=QUICK)
    await engine.start()
    server.kill()
    played = await play(engine)
    assert {t.status for t in played} == {Status.FAILED}
    assert all(server.url in t.error.reason for t in played if t.error)
    await engine.aclose()
