"""Servers that refuse, break, hang and die."""

from __future__ import annotations

import asyncio
import pickle
import socket
import time
from dataclasses import replace
from typing import Any

import pytest
from quick_settings import QUICK
from sglang_server import SGLangServer

from retrain.engine import SamplingParams
from retrain.engine.http_client import HttpSettings, ServerFault, server_urls
from retrain.engine.sglang_engine import SGLangEngine
from retrain.errors import ConfigError, EngineFailure, MissingDependency

PROMPT = [1, 50, 60, 70]
PARAMS = SamplingParams(4)


def over(*servers: Any, **changes: Any) -> SGLangEngine:
    return SGLangEngine([s.url for s in servers], settings=replace(QUICK, **changes))


def free_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_nobody_listening_is_one_error_that_names_the_url() -> None:
    url = free_url()
    engine = SGLangEngine(url, settings=replace(QUICK, retries=1))
    with pytest.raises(
        EngineFailure, match=rf"no server can be used: GET {url}/health: ClientConnectorE"
    ):
        await engine.generate(PROMPT, PARAMS, session_id="s", seed=0)


@pytest.mark.parametrize("fault", [500, 502, 503, 429, "drop"])
async def test_an_error_that_passes_is_retried_with_the_same_seed(
    serve: Any, started: Any, fault: Any
) -> None:
    server = started(SGLangServer, serve())
    engine = over(server)
    expected = await engine.generate(PROMPT, PARAMS, session_id="before", seed=9)
    server.faults.extend([fault, fault])
    answer = await engine.generate(PROMPT, PARAMS, session_id="s", seed=9)
    assert answer.output_ids == expected.output_ids
    tries = [body for body in server.calls("/generate") if "_t1_r" in body.get("rid", "")][1:]
    assert [body["rid"][-3:] for body in tries] == ["_r0", "_r1", "_r2"]
    assert len({body["sampling_params"]["sampling_seed"] for body in tries}) == 1
    await engine.aclose()


async def test_an_error_of_ours_is_not_retried(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server)
    await engine.start()
    server.faults.append(400)
    with pytest.raises(ServerFault, match=r"/generate: HTTP 400: .*broken") as caught:
        await engine.generate(PROMPT, PARAMS, session_id="s", seed=0)
    assert caught.value.status == 400
    assert pickle.loads(pickle.dumps(caught.value)).status == 400
    assert sum("rid" in body for body in server.calls("/generate")) == 1
    await engine.aclose()


async def test_retries_are_bounded(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server, retries=2)
    server.faults.extend([500] * 9)
    with pytest.raises(ServerFault, match="HTTP 500"):
        await engine.generate(PROMPT, PARAMS, session_id="s", seed=0)
    assert len(server.faults) == 6
    await engine.aclose()


async def test_a_server_that_hangs_is_left_out(serve: Any, started: Any) -> None:
    served = serve()
    hanging, fine = started(SGLangServer, served), started(SGLangServer, served)
    engine = over(hanging, fine, timeout=1.0, probe_interval=600)
    hanging.faults.append("hang")
    await engine.start()
    began = time.monotonic()
    with pytest.raises(ServerFault, match=r"/generate: no answer within 1 s"):
        await engine.generate(PROMPT, PARAMS, session_id="s", seed=0)
    assert time.monotonic() - began < 5
    answer = await engine.generate(PROMPT, PARAMS, session_id="s", seed=0)
    assert answer.meta["server"] == fine.url
    await engine.aclose()


async def test_a_server_that_dies_is_replaced_and_taken_back(serve: Any, started: Any) -> None:
    served = [serve(), serve()]
    servers = [started(SGLangServer, each) for each in served]
    engine = over(*servers)
    await engine.start()
    turns = [
        asyncio.create_task(engine.generate(PROMPT, SamplingParams(60), session_id=f"s{n}", seed=n))
        for n in range(6)
    ]
    while not all(server.running for server in servers):
        await asyncio.sleep(0.002)
    servers[0].kill()
    answers = await asyncio.gather(*turns)
    for n, answer in enumerate(answers):
        alone = await served[1].engine.generate(
            PROMPT,
            replace(PARAMS, max_tokens=60, stop_token_ids=frozenset({2})),
            session_id=f"alone{n}",
            seed=n,
        )
        assert answer.output_ids == alone.output_ids, "the same turn, wherever it was written"
    assert {answer.meta["server"] for answer in answers[0::2]} == {servers[1].url}
    servers[0].start()
    async with asyncio.timeout(10):
        turn = 0
        while True:
            turn += 1
            answer = await engine.generate(PROMPT, PARAMS, session_id=f"new{turn}", seed=0)
            if answer.meta["server"] == servers[0].url:
                break
            await asyncio.sleep(0.02)
    await engine.aclose()


async def test_a_single_server_that_restarts_is_waited_for(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server, backoff=0.3)
    await engine.start()
    server.kill()
    turn = asyncio.create_task(engine.generate(PROMPT, PARAMS, session_id="s", seed=0))
    await asyncio.sleep(0.1)
    server.start()
    assert len((await turn).output_ids) > 0
    await engine.aclose()


async def test_the_key_comes_from_the_environment_and_stands_in_no_error(
    serve: Any, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(SGLangServer, serve(), api_key="secret-key-1")
    monkeypatch.setenv("A_KEY", "secret-key-1")
    await over(server, api_key_env="A_KEY").start()
    monkeypatch.setenv("A_KEY", "secret-key-2")
    with pytest.raises(EngineFailure, match=r"HTTP 401: .*\*\*\*.*api_key_env") as caught:
        await over(server, api_key_env="A_KEY", retries=0).start()
    assert "secret-key" not in str(caught.value)
    monkeypatch.delenv("A_KEY")
    with pytest.raises(ConfigError, match="'A_KEY' is not set"):
        over(server, api_key_env="A_KEY")


async def test_an_engine_works_in_one_event_loop_after_another(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    engine = over(server)

    def play() -> Any:
        turns = (engine.generate(PROMPT, PARAMS, session_id=f"s{n}", seed=1) for n in range(3))

        async def all_of_them() -> Any:
            return await asyncio.gather(*turns)

        return asyncio.run(all_of_them())

    first = await asyncio.to_thread(play)
    engine.close()
    second = await asyncio.to_thread(play)
    assert [answer.output_ids for answer in first] == [answer.output_ids for answer in second]
    engine.close()


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ([], "name at least one server"),
        ("localhost:30000", "write http://HOST:PORT"),
        ("http://me:word@host:1", "credentials; put the key into an environment variable"),
        (["http://a:1", "http://a:1/"], "stands there twice"),
    ],
)
def test_urls_that_cannot_be_are_refused(urls: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        server_urls(urls)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"timeout": 0.0}, {"backoff": -1.0}, {"retries": -1}])
def test_settings_that_cannot_be_are_refused(changes: Any) -> None:
    with pytest.raises(ConfigError, match=rf"engine\.{next(iter(changes))}"):
        HttpSettings(**changes)


def test_a_missing_aiohttp_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[http\]'"):
        SGLangEngine("http://localhost:1")
