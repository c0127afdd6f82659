"""The SGLang engine against a server that runs the real in-process engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from failing_once import PROMPT, require_one_failure
from quick_settings import QUICK
from served_model import VOCABULARY
from sglang_server import SGLangServer

from retrain.engine import InferenceEngine, SamplingParams, http_engine
from retrain.engine.http_answer import ServedModel
from retrain.engine.sglang_engine import SGLangEngine
from retrain.errors import ConfigError, EngineFailure
from retrain.types import FinishReason


def over(*servers: Any, **options: Any) -> SGLangEngine:
    return SGLangEngine([server.url for server in servers], **{"settings": QUICK, **options})


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(12),
        SamplingParams(12, temperature=0.6),
        SamplingParams(12, temperature=0.0),
        SamplingParams(12, temperature=1.3, top_p=0.8, top_k=20),
        SamplingParams(40, stop_token_ids=frozenset(range(100, 200))),
    ],
)
async def test_same_ids_and_logprobs_as_the_engine_in_this_process(
    serve: Any, started: Any, params: SamplingParams
) -> None:
    local, remote = serve(), started(SGLangServer, serve())
    engine = over(remote)
    for seed in (1, 2, 2**63 - 1):
        here = await local.engine.generate(PROMPT, params, session_id=f"s{seed}", seed=seed)
        there = await engine.generate(PROMPT, params, session_id=f"s{seed}", seed=seed)
        stops = params.stop_token_ids | {2}
        if not stops.isdisjoint(here.output_ids[:-1]):
            continue
        assert there.output_ids == here.output_ids
        assert there.logprobs == pytest.approx(here.logprobs, abs=1e-6)
        assert there.finish_reason == here.finish_reason or here.output_ids[-1] == 2
        assert there.weight_version == "default"
    assert isinstance(engine, InferenceEngine)
    await engine.aclose()


async def test_a_second_turn_hits_the_cache_of_the_first_one(serve: Any, started: Any) -> None:
    servers = [started(SGLangServer, serve()) for _ in range(2)]
    engine = over(*servers)
    params = SamplingParams(6)
    first = await engine.generate(PROMPT, params, session_id="a", seed=1)
    other = await engine.generate(PROMPT, params, session_id="b", seed=1)
    stream = [*PROMPT, *first.output_ids, 80]
    second = await engine.generate(stream, params, session_id="a", seed=2)
    assert second.meta["cached_tokens"] >= len(PROMPT)
    assert second.meta["server"] == first.meta["server"] != other.meta["server"]
    rids = [body["rid"] for body in servers[0].calls("/generate") if "rid" in body]
    assert len(set(rids)) == len(rids)
    keys = {call[1].get("x-smg-routing-key") for call in servers[0].seen} - {None}
    assert len(keys) == 1, "one session, one routing key, which every rid begins with"
    assert all(rid.startswith(f"{min(keys)}_t") for rid in rids)
    await engine.aclose()


async def test_new_sessions_go_to_the_server_with_the_fewest(serve: Any, started: Any) -> None:
    served = serve()
    servers = [started(SGLangServer, served) for _ in range(2)]
    engine = over(*servers)
    await engine.start()
    params = SamplingParams(3)
    await asyncio.gather(
        *(engine.generate(PROMPT, params, session_id=f"s{n}", seed=n) for n in range(8))
    )
    assert [sum("rid" in body for body in s.calls("/generate")) for s in servers] == [4, 4]
    await engine.aclose()


async def test_capabilities_say_what_the_servers_can_do(serve: Any, started: Any) -> None:
    engine = over(started(SGLangServer, serve(), deterministic=True))
    assert not engine.capabilities.seeded, "not known before the start"
    await engine.start()
    assert engine.capabilities.seeded
    assert engine.capabilities.abortable
    assert engine.capabilities.weight_update
    assert not engine.capabilities.images
    plain = started(SGLangServer, serve(), deterministic=False)
    unseeded = over(plain)
    await unseeded.generate(PROMPT, SamplingParams(2), session_id="s", seed=5)
    assert not unseeded.capabilities.seeded
    assert "sampling_seed" not in plain.calls("/generate")[-1]["sampling_params"]
    await engine.aclose()
    await unseeded.aclose()


async def test_abort_returns_what_was_written(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server)
    params = SamplingParams(490)
    turns = {
        name: asyncio.create_task(engine.generate([1, 5], params, session_id=name, seed=seed))
        for seed, name in enumerate(("long-1", "long-10"))
    }
    while len(server.running) < 2:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    await engine.abort("long-1")
    aborted = await turns["long-1"]
    assert aborted.finish_reason is FinishReason.ABORT
    assert 0 < len(aborted.output_ids) == len(aborted.logprobs) < 490
    assert not turns["long-10"].done(), "aborting by prefix must not reach another session"
    await engine.release("long-10")
    assert (await turns["long-10"]).finish_reason is FinishReason.ABORT
    await engine.abort("nobody")
    await engine.aclose()


async def test_a_cancelled_turn_ends_on_the_server_too(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server)
    await engine.start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await engine.generate([1], SamplingParams(500), session_id="s", seed=0)
    async with asyncio.timeout(5):
        while server.running:
            await asyncio.sleep(0.01)
    again = await engine.generate([1], SamplingParams(2), session_id="s", seed=0)
    assert len(again.output_ids) > 0
    await engine.aclose()


async def test_a_session_has_one_running_request(serve: Any, started: Any) -> None:
    engine = over(started(SGLangServer, serve()))
    turn = asyncio.create_task(engine.generate([1], SamplingParams(300), session_id="s", seed=0))
    await asyncio.sleep(0.05)
    with pytest.raises(EngineFailure, match="already has a running request"):
        await engine.generate([1], SamplingParams(3), session_id="s", seed=0)
    await engine.release("s")
    await turn
    await engine.aclose()


async def test_a_router_gets_the_turns_and_its_workers_the_aborts(
    serve: Any, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_engine, "ABORT_SECONDS", 0.2)
    worker = started(SGLangServer, serve())
    router = started(SGLangServer, serve(), workers=(worker.url,))
    engine = over(router, router=True)
    await engine.start()
    turn = asyncio.create_task(engine.generate([1], SamplingParams(490), session_id="s", seed=0))
    while not router.running:
        await asyncio.sleep(0.005)
    (rid,) = router.running
    await engine.abort("s")
    assert worker.calls("/abort_request") == [{"rid": rid}], "a router does not pass aborts on"
    assert not router.calls("/abort_request")
    async with asyncio.timeout(10):
        answer = await turn
    assert answer.finish_reason is FinishReason.ABORT, "cut, since no worker ended it"
    assert answer.output_ids == ()
    with pytest.raises(ConfigError, match="name one router"):
        over(router, worker, router=True)
    await engine.aclose()


async def test_untempered_logprobs_are_refused_unless_they_are_the_same(
    serve: Any, started: Any
) -> None:
    engine = over(started(SGLangServer, serve(), original_logprobs=True))
    for fine in (SamplingParams(3), SamplingParams(3, temperature=0), SamplingParams(3, top_p=0.9)):
        await engine.generate(PROMPT, fine, session_id="s", seed=0)
    warm = SamplingParams(3, temperature=0.7)
    with pytest.raises(ConfigError, match="SGLANG_RETURN_ORIGINAL_LOGPROB"):
        await engine.generate(PROMPT, warm, session_id="s", seed=0)
    await engine.aclose()


async def test_another_vocabulary_is_refused_with_both_models_named(
    serve: Any, started: Any
) -> None:
    served = serve()
    other = ServedModel("ours", VOCABULARY, lambda text: [*served.encode(text), 7])
    engine = over(started(SGLangServer, served), model=other)
    with pytest.raises(ConfigError, match=r"another vocabulary than ours.*start it with the same"):
        await engine.start()
    same = over(*[started(SGLangServer, served)], model=ServedModel("x", 354, served.encode))
    await same.start()
    with pytest.raises(EngineFailure, match=r"token ids from 1 to 400: x knows 0 to 353"):
        await same.generate([1, 400], SamplingParams(3), session_id="s", seed=0)
    small = over(started(SGLangServer, served), model=ServedModel("small", 60))
    with pytest.raises(EngineFailure, match="the server serves another model"):
        await small.generate([1, 2], SamplingParams(40), session_id="s", seed=0)
    for engine_of_it in (engine, same, small):
        await engine_of_it.aclose()


def without(*path: Any) -> Callable[[Any], Any]:
    def change(reply: Any) -> Any:
        inner = reply
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        return reply

    return change


def meta(**changes: Any) -> Callable[[Any], Any]:
    return lambda reply: {**reply, "meta_info": {**reply["meta_info"], **changes}}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (without("meta_info", "output_token_logprobs"), "gives no logprobs.*return_logprob"),
        (without("output_ids", 0), "4 output_ids, and logprobs of 5 tokens"),
        (without("meta_info", "output_token_logprobs", 0), "5 output_ids, and logprobs of 4"),
        (meta(prompt_tokens=3), "answered a prompt of 3 tokens, 4 were sent"),
        (meta(finish_reason={"type": "error"}), "expected stop, length or abort"),
        (meta(finish_reason={"type": "stop", "matched": 9}), "server trims stop tokens"),
        (
            lambda r: meta(output_token_logprobs=[], finish_reason={"type": "length"})(
                {**r, "output_ids": []}
            ),
            "no token, finished with length",
        ),
        (
            lambda r: meta(
                output_token_logprobs=r["meta_info"]["output_token_logprobs"][:2],
                finish_reason={"type": "length"},
            )({**r, "output_ids": r["output_ids"][:2]}),
            "context is shorter than ours",
        ),
        (
            lambda r: meta(output_token_logprobs=[[0.5, i, None] for i in r["output_ids"]])(r),
            "positive or not finite",
        ),
        (lambda r: ["no", "object"], "without meta_info; is it a SGLang server"),
    ],
)
async def test_impossible_answers_are_failures(
    serve: Any, started: Any, fault: Any, message: str
) -> None:
    server = started(SGLangServer, serve())
    server.faults.append(fault)
    await require_one_failure(over(server), message)
