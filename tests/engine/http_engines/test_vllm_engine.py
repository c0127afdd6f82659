"""The vLLM and OpenAI-compatible engines against a server that runs the real in-process engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from failing_once import PROMPT, require_one_failure
from quick_settings import QUICK
from served_model import VOCABULARY
from vllm_server import VLLMServer

from retrain.engine import InferenceEngine, SamplingParams
from retrain.engine.http_answer import ServedModel
from retrain.engine.openai_engine import OpenAIEngine
from retrain.engine.vllm_engine import VLLMEngine
from retrain.errors import ConfigError
from retrain.types import FinishReason


def over(*servers: Any, kind: Any = VLLMEngine, **options: Any) -> Any:
    return kind([f"{server.url}/v1" for server in servers], **{"settings": QUICK, **options})


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(12),
        SamplingParams(12, temperature=0.6),
        SamplingParams(12, temperature=0.0),
        SamplingParams(40, stop_token_ids=frozenset({2, *range(100, 200)})),
    ],
)
async def test_same_ids_and_logprobs_as_the_engine_in_this_process(
    serve: Any, started: Any, params: SamplingParams
) -> None:
    local, remote = serve(), started(VLLMServer, serve())
    engine = over(remote)
    for seed in (1, 2, 2**63 - 1):
        here = await local.engine.generate(PROMPT, params, session_id=f"s{seed}", seed=seed)
        there = await engine.generate(PROMPT, params, session_id=f"s{seed}", seed=seed)
        assert there.output_ids == here.output_ids
        assert there.logprobs == pytest.approx(here.logprobs, abs=1e-6)
        assert there.finish_reason == here.finish_reason
        assert there.weight_version == "0"
    assert isinstance(engine, InferenceEngine)
    assert engine.capabilities.seeded
    assert engine.capabilities.weight_update
    engine.weights_changed("7")
    later = await engine.generate(PROMPT, params, session_id="s", seed=1)
    assert later.weight_version == "7"
    await engine.aclose()


async def test_a_server_that_ignores_seeds_is_found_out(serve: Any, started: Any) -> None:
    engine = over(started(VLLMServer, serve(), ignores_seeds=True), kind=OpenAIEngine)
    await engine.start()
    assert not engine.capabilities.seeded
    await engine.aclose()


@pytest.mark.parametrize("development", [True, False])
async def test_abort_ends_the_request_on_the_server(
    serve: Any, started: Any, development: bool
) -> None:
    server = started(VLLMServer, serve(), development=development)
    engine = over(server)
    await engine.start()
    turn = asyncio.create_task(engine.generate([1], SamplingParams(490), session_id="s", seed=0))
    while not server.running:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    await engine.abort("s")
    answer = await turn
    assert answer.finish_reason is FinishReason.ABORT
    assert bool(answer.output_ids) is development, "without the endpoint the turn is lost"
    assert len(answer.output_ids) == len(answer.logprobs) < 490
    async with asyncio.timeout(5):
        while server.running:
            await asyncio.sleep(0.01)
    await engine.aclose()


@pytest.mark.parametrize(
    ("processed", "params", "fine"),
    [
        (False, SamplingParams(3), True),
        (False, SamplingParams(3, top_p=0.9), True),
        (False, SamplingParams(3, temperature=0.0), True),
        (False, SamplingParams(3, temperature=0.7), False),
        (True, SamplingParams(3, temperature=0.7), True),
        (True, SamplingParams(3, top_p=0.9), False),
        (True, SamplingParams(3, top_k=5), False),
        (True, SamplingParams(3, temperature=0.0, top_k=5), True),
    ],
)
async def test_logprobs_of_another_distribution_are_refused(
    serve: Any, started: Any, processed: bool, params: SamplingParams, fine: bool
) -> None:
    engine = over(started(VLLMServer, serve(), processed_logprobs=processed))
    if fine:
        await engine.generate(PROMPT, params, session_id="s", seed=0)
    else:
        with pytest.raises(ConfigError, match="--logprobs-mode processed_logprobs"):
            await engine.generate(PROMPT, params, session_id="s", seed=0)
    await engine.aclose()


async def test_a_server_that_answers_in_text_is_refused(serve: Any, started: Any) -> None:
    served = serve()
    text = over(started(VLLMServer, served, token_ids=False), kind=OpenAIEngine)
    with pytest.raises(ConfigError, match=r"gives no token ids.*engine: vllm.*engine: sglang"):
        await text.start()
    chat = over(started(VLLMServer, served, chat_only=True), kind=OpenAIEngine)
    with pytest.raises(ConfigError, match=r"HTTP 404.*a chat endpoint applies a template"):
        await chat.start()


async def test_the_served_name_is_found_or_refused(serve: Any, started: Any) -> None:
    server = started(VLLMServer, serve(), name="tiny-model")
    await over(server, served_model="tiny-model").start()
    with pytest.raises(ConfigError, match=r"engine.served_model: .* did you mean 'tiny-model'"):
        await over(server, served_model="tiny-modle").start()


async def test_another_vocabulary_is_refused(serve: Any, started: Any) -> None:
    served = serve()
    server = started(VLLMServer, served)
    await over(server, model=ServedModel("ours", VOCABULARY, served.encode)).start()
    other = ServedModel("ours", VOCABULARY, lambda text: served.encode(text)[1:])
    with pytest.raises(ConfigError, match="another vocabulary than ours"):
        await over(server, model=other).start()


def choice(**changes: Any) -> Any:
    return lambda reply: {**reply, "choices": [{**reply["choices"][0], **changes}]}


def logprobs(**changes: Any) -> Any:
    def change(reply: Any) -> Any:
        return choice(logprobs={**reply["choices"][0]["logprobs"], **changes})(reply)

    return change


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (choice(logprobs=None), "gives no logprobs"),
        (logprobs(token_logprobs=[-1.0, None, -1.0, -1.0, -1.0]), "gives no logprobs"),
        (logprobs(token_logprobs=[-1.0] * 4), "5 tokens with 4 logprobs"),
        (choice(token_ids=[1, 2]), "2 token_ids, and logprobs of 5 tokens, which differ"),
        (choice(prompt_token_ids=[1, *PROMPT]), r"another prompt \(5 tokens\).*\(4\)"),
        (choice(stop_reason=99), "server trims stop tokens"),
        (choice(finish_reason="content_filter"), "expected stop, length or abort"),
        (lambda reply: {**reply, "choices": []}, "without the one choice asked for"),
    ],
)
async def test_impossible_answers_are_failures(
    serve: Any, started: Any, fault: Any, message: str
) -> None:
    server = started(VLLMServer, serve())
    server.faults.append(fault)
    await require_one_failure(over(server), message)


async def test_either_way_of_giving_ids_will_do(serve: Any, started: Any) -> None:
    server = started(VLLMServer, serve())
    engine = over(server)
    expected = await engine.generate(PROMPT, SamplingParams(5), session_id="s", seed=3)
    server.faults.extend([choice(token_ids=None), logprobs(tokens=["a", "b", "c", "d", "e"])])
    for _ in range(2):
        answer = await engine.generate(PROMPT, SamplingParams(5), session_id="s", seed=3)
        assert answer.output_ids == expected.output_ids
    await engine.aclose()
