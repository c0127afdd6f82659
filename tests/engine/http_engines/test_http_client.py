"""The client beneath every engine over HTTP: what it sends, what it reads, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import random
import struct
import threading
from typing import Any

import pytest
from loopback_server import LoopbackServer
from starlette.requests import Request
from starlette.responses import Response

from retrain.engine.http_client import HttpClient, HttpSettings


def echo(raw: bytes = b"") -> LoopbackServer:
    """Answers `raw`, or what it was sent."""

    async def handle(request: Request) -> Response:
        return Response(raw or await request.body(), media_type="application/json")

    return LoopbackServer({"/echo": handle})


def client_of(server: LoopbackServer, **settings: Any) -> HttpClient:
    return HttpClient((server.url,), HttpSettings(**settings))


async def test_numbers_arrive_as_they_were_sent(started: Any) -> None:
    drawn = random.Random(3)
    doubles = [drawn.expovariate(1.0) * 10.0 ** drawn.randint(-30, 30) for _ in range(300)]
    singles = [struct.unpack("f", struct.pack("f", -drawn.random()))[0] for _ in range(300)]
    body = {"ids": [0, 151_935, 2**63 - 1], "logprobs": doubles + singles, "text": "naïve 日本 🙂"}
    server = started(echo)
    client = client_of(server)
    assert await client.ask("POST", f"{server.url}/echo", body=body) == body
    assert server.calls("/echo") == [body]
    await client.aclose()


@pytest.mark.parametrize(
    ("raw", "read"),
    [(b"[NaN, -Infinity]", [math.nan, -math.inf]), (b"out of order", "out of order")],
)
async def test_answers_that_are_no_strict_json_are_read_too(
    started: Any, raw: bytes, read: Any
) -> None:
    server = started(echo, raw)
    client = client_of(server)
    answer = await client.ask("GET", f"{server.url}/echo")
    assert json.dumps(answer) == json.dumps(read)
    await client.aclose()


async def test_a_redirect_is_not_followed(started: Any) -> None:
    async def move(request: Request) -> Response:
        return Response(b'"moved"', status_code=302, headers={"Location": "/echo"})

    server = started(LoopbackServer, {"/generate": move})
    client = client_of(server)
    assert await client.ask("POST", f"{server.url}/generate", body={}) == "moved"
    assert [path for path, _, _ in server.seen] == ["/generate"]
    await client.aclose()


def test_a_client_that_nobody_closed_leaves_no_complaint(
    started: Any, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    server = started(echo, b"1")

    async def ask(client: HttpClient) -> None:
        assert await client.ask("GET", f"{server.url}/echo") == 1

    client = client_of(server)
    asyncio.run(ask(client))
    asyncio.run(ask(client))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(ask(client), loop).result(10)
    del client
    gc.collect()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
    gc.collect()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [w for w in recwarn if "Unclosed" in str(w.message)]


@pytest.mark.parametrize(
    ("url", "proxies", "used"),
    [
        ("http://127.0.0.1:1", True, False),
        ("http://10.0.0.1:1", True, True),
        ("http://10.0.0.1:1", False, False),
    ],
)
async def test_proxies_are_used_where_they_may_be(url: str, proxies: bool, used: bool) -> None:
    client = HttpClient((url,), HttpSettings(proxies=proxies))
    assert client._session().trust_env is used
    await client.aclose()
