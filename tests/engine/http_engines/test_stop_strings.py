"""Stop strings: engines that end turns by themselves write the tokens of those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from quick_settings import QUICK
from sglang_server import SGLangServer
from vllm_server import VLLMServer

from bridges import EnvironmentBridge, EpisodeLimits
from bridges.stopping import ended_too_soon, strings_for
from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.openai_engine import OpenAIEngine
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.stop_strings import StopStrings
from retrain.engine.vllm_engine import VLLMEngine
from retrain.environment.base import Environment
from retrain.rendering import load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Message, Observation, StepResult, Task, Turn

EPISODES, TURNS = 2, 2
STRINGS = ("e", "7", "ab")


class Chatter(Environment):
    """Answers every turn, and ends after `TURNS` of them."""

    def __init__(self) -> None:
        self.turn = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.turn += 1
        return StepResult(Observation((Message("user", "go on"),)), 1.0, self.turn == TURNS)


class Counting:
    """Passes requests on, and counts what comes back.

    Attributes:
        written: Tokens of all answers.
    """

    capabilities = EngineCapabilities(seeded=True, abortable=True)

    def __init__(self, engine: Any, *, tells: bool = True, early: int = 0) -> None:
        """Stand before an engine.

        Args:
            engine: The engine.
            tells: Whether it is told of stop strings.
            early: Ends a turn that it is told strings of after so many tokens, if not 0.
        """
        self._engine, self._tells, self._early = engine, tells, early
        self.written = 0

    async def generate(
        self, ids: Sequence[int], params: SamplingParams, **options: Any
    ) -> Generation:
        told = params.stop_strings is not None
        asked = params if self._tells and not self._early else replace(params, stop_strings=None)
        answer: Generation = await self._engine.generate(ids, asked, **options)
        self.written += len(answer.output_ids)
        if told and self._early and len(answer.output_ids) > self._early:
            ids, logprobs = answer.output_ids[: self._early], answer.logprobs[: self._early]
            return Generation(ids, logprobs, FinishReason.STOP)
        return answer

    async def abort(self, session_id: str) -> None:
        await self._engine.abort(session_id)

    async def release(self, session_id: str) -> None:
        await self._engine.release(session_id)


async def turns(served: Any, engine: Any) -> list[Turn]:
    """The turns of some episodes."""
    limits = EpisodeLimits(max_response_len=300, max_tokens_per_turn=40, stop_strings=STRINGS)
    bridge = EnvironmentBridge(load_renderer(served.tokenizer), Chatter, limits)
    played: list[Turn] = []
    for n in range(EPISODES):
        episode = await bridge.run(
            Task(f"t{n}", f"Question {n}?"),
            engine=engine,
            params=SamplingParams(max_tokens=60, temperature=1.0),
            seed=EpisodeSeed(3, "train", f"t{n}", 0, 0),
        )
        assert episode.status is Status.COMPLETED, episode.error
        played += episode.turns
    return played


def same(found: list[Turn], expected: list[Turn]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.output_ids, one.env_ids) == (other.output_ids, other.env_ids)
        assert one.finish_reason is other.finish_reason
        assert one.output_logprobs == pytest.approx(other.output_logprobs, abs=1e-5)


async def test_the_in_process_engine_ends_turns_where_the_cut_would_be(serve: Any) -> None:
    served = serve()
    silent, told = Counting(served.engine, tells=False), Counting(served.engine)
    expected = await turns(served, silent)
    same(await turns(served, told), expected)
    assert told.written == sum(len(turn.output_ids) for turn in expected) < silent.written


@pytest.mark.parametrize(
    ("engine_kind", "server_kind", "stops"),
    [
        (SGLangEngine, SGLangServer, True),
        (VLLMEngine, VLLMServer, True),
        (OpenAIEngine, VLLMServer, False),
    ],
)
async def test_servers_end_turns_where_the_cut_would_be(
    serve: Any, started: Any, engine_kind: Any, server_kind: Any, stops: bool
) -> None:
    served = serve()
    expected = await turns(served, Counting(served.engine, tells=False))
    server = started(server_kind, served)
    engine = engine_kind(server.url, settings=QUICK)
    await engine.start()
    probes = server.written
    same(await turns(served, engine), expected)
    needed = sum(len(turn.output_ids) for turn in expected)
    assert (server.written - probes == needed) is stops
    await engine.aclose()


async def test_a_server_without_a_tokenizer_is_not_told(serve: Any, started: Any) -> None:
    served = serve()
    expected = await turns(served, Counting(served.engine, tells=False))
    server = started(SGLangServer, served)
    server.skips_tokenizer = True
    engine = SGLangEngine(server.url, settings=QUICK)
    await engine.start()
    same(await turns(served, engine), expected)
    await engine.aclose()


async def test_a_turn_that_an_engine_ended_too_soon_is_written_again(serve: Any) -> None:
    served = serve()
    expected = await turns(served, Counting(served.engine, tells=False))
    same(await turns(served, Counting(served.engine, early=3)), expected)


def test_engines_are_told_where_tokens_have_fixed_bytes_alone(serve: Any) -> None:
    renderer = load_renderer(serve().tokenizer)
    assert strings_for(renderer, STRINGS) == StopStrings(STRINGS, renderer.decode)
    assert strings_for(renderer, ()) is None
    assert strings_for(renderer, ("\ufffd",)) is None

    class Otherwise:
        decodes_bytes = False

    assert strings_for(Otherwise(), STRINGS) is None  # type: ignore[arg-type]


def test_a_turn_that_ends_on_a_stop_token_or_behind_a_string_ends_in_time() -> None:
    strings = StopStrings(("lo",), lambda ids: bytes(ids).decode())
    params = SamplingParams(9, stop_token_ids=frozenset({33}), stop_strings=strings)

    def ended(text: str, reason: FinishReason) -> bool:
        ids = tuple(text.encode())
        return ended_too_soon(Generation(ids, (0.0,) * len(ids), reason), params)

    assert ended("hel", FinishReason.STOP)
    assert not any(ended(text, FinishReason.STOP) for text in ("hello", "hel!", "hello w"))
    assert not ended("hel", FinishReason.LENGTH)
    assert strings.completed_by(b"hello") and not strings.completed_by(b"hello wo")
