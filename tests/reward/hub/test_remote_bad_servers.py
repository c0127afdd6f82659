"""`remote` against servers that break every rule: bounded time and memory, a typed failure."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import socket
import threading
import time
import tracemalloc
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from scoring_server import Behaviour, drips, hangs, hangs_up, says

from retrain.errors import EpisodeError
from retrain.reward.hub.cases import Case
from retrain.reward.hub.remote import Remote, RemoteSettings
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure

QUICK: dict[str, Any] = {
    "backoff": 0.01,
    "attempt_timeout": 0.3,
    "timeout": 1.0,
    "retries": 1,
    "most_bytes": 10_000,
}
HTML = "<html>\n<body>  <h1>502 Bad Gateway</h1>"


BAD: dict[str, tuple[Behaviour, FaultKind, str]] = {
    "500": (says("trace\nback", 500), FaultKind.STATUS, "HTTP 500: 'trace back'"),
    "400": (says("no", 400), FaultKind.STATUS, "HTTP 400: 'no'"),
    "429": (says("slow down", 429), FaultKind.LIMITED, "HTTP 429"),
    "204": (says("", 204), FaultKind.STATUS, "HTTP 204"),
    "redirect": (says("", 302, Location="/x"), FaultKind.STATUS, "redirects are not followed"),
    "html": (says(HTML, kind="text/html"), FaultKind.REPLY, "502 Bad Gateway.*which is no JSON"),
    "empty": (says(""), FaultKind.REPLY, "no JSON"),
    "cut": (says('{"score": 0.'), FaultKind.REPLY, "no JSON"),
    "bytes": (says(b"\xff\xfe\x00"), FaultKind.REPLY, "no JSON"),
    "deep": (says("[" * 5000), FaultKind.REPLY, "no JSON"),
    "packed": (
        says(gzip.compress(b"1" * 10**6), Content_Encoding="gzip"),
        FaultKind.REPLY,
        "packed with gzip",
    ),
    "nan": (says("NaN"), FaultKind.REPLY, "finite"),
    "infinite": (says("1e999"), FaultKind.REPLY, "finite"),
    "large": (says("9" * 400), FaultKind.REPLY, "finite"),
    "text": (says('"0.5"'), FaultKind.REPLY, "'0.5', expected a number"),
    "bool": (says("true"), FaultKind.REPLY, "True, expected a number"),
    "null": (says("null"), FaultKind.REPLY, "None, expected a number"),
    "list": (says("[1, 2]"), FaultKind.REPLY, "expected a number"),
    "key": (says('{"scores": 1}'), FaultKind.REPLY, "an object without 'score'"),
    "huge": (says("1" * 10**6), FaultKind.TOO_LARGE, "a reply of more than 10,000 bytes"),
    "endless": (
        drips([b" " * 60_000] * 1000, seconds=0.0),
        FaultKind.TOO_LARGE,
        "a reply of more than 10,000 bytes",
    ),
    "never": (hangs, FaultKind.TIMEOUT, "no answer within"),
    "drip": (drips([b" "] * 1000, seconds=0.02), FaultKind.TIMEOUT, "no answer within"),
    "hangs up": (hangs_up, FaultKind.CONNECTION, "disconnected"),
    "half": (drips([b'{"sco'], seconds=0.0, length=50), FaultKind.CONNECTION, "ClientPayloadError"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_answer_is_a_typed_failure_that_names_the_url(name: str, serve: Any) -> None:
    behaviour, kind, message = BAD[name]
    server = serve(behaviour)
    slow = {} if kind is FaultKind.TIMEOUT else {"attempt_timeout": 5.0, "timeout": 9.0}
    remote = Remote(RemoteSettings(url=f"{server.url}/score", **{**QUICK, **slow}))
    began = time.monotonic()
    with pytest.raises(ServiceFailure, match=message) as failure:
        await remote(Case("x"))
    assert failure.value.kind is kind
    assert f"remote: POST {server.url}/score: " in str(failure.value)
    assert len(str(failure.value)) < 600
    assert time.monotonic() - began < 20
    assert remote.tally.totals()[f"failures/{kind}"] == 1
    await remote.aclose()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("[1, 2]", "2 scores for 3 items"),
        ('{"scores": [1, 2, 3, 4]}', "4 scores for 3 items"),
        ('{"scores": 1}', "expected a list of 3 scores"),
        ("1", "expected a list of 3 scores"),
    ],
)
async def test_a_wrong_count_fails_the_batch(serve: Any, reply: str, message: str) -> None:
    server = serve(says(reply))
    remote = Remote(RemoteSettings(url=server.url, batch_size=3))
    given = await asyncio.gather(*(remote(Case("x")) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(failure, ServiceFailure) for failure in given)
    assert message in str(given[0])
    await remote.aclose()


async def test_a_reply_without_an_end_takes_little_memory(serve: Any) -> None:
    server = serve(drips([b" " * 2**20] * 400, seconds=0.0))
    remote = Remote(
        RemoteSettings(url=server.url, **{**QUICK, "most_bytes": 2**20, "attempt_timeout": 20.0})
    )
    tracemalloc.start()
    with pytest.raises(ServiceFailure):
        await remote(Case("x"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 2**20
    await remote.aclose()


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        remote = Remote(RemoteSettings(url=f"http://127.0.0.1:{taken.getsockname()[1]}/", **QUICK))
        with pytest.raises(ServiceFailure, match="Cannot connect") as failure:
            await remote(Case("x"))
    assert failure.value.kind is FaultKind.CONNECTION
    await remote.aclose()


async def test_what_is_no_json_is_not_sent(serve: Any) -> None:
    server = serve(says("1"))
    remote = Remote(RemoteSettings(url=server.url))
    for label in (object(), float("nan"), {1j}):
        with pytest.raises(ServiceFailure, match="cannot be sent as JSON"):
            await remote(Case("x", label))
    assert await remote(Case("\ud800\x00")) == 1.0
    assert len(server.seen) == 1
    await remote.aclose()


class RawServer:
    """Answers every connection with the same bytes, whatever was asked."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(2**16)
                connection.sendall(self._answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


_PIECES = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 999 \r\n",
    b"HTTP/9.9 x\r\n",
    b"Content-Length: 1\r\n",
    b"Content-Length: -5\r\n",
    b"Content-Length: 99\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"X: " + b"y" * 20_000 + b"\r\n",
    b"\x00\xff: \r\n",
    b"\r\n",
    b"1",
    b"ffffffffffff\r\n",
    b"5\r\nabcde\r\n",
    b"0\r\n\r\n",
    b"",
)


SECRET = "sk-0123456789-secret"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 2xx what\r\n\r\n",
        b"garbage " + SECRET.encode() + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBearer " + SECRET.encode() + b"\r\n\r\n",
        b"HTTP/1.1 500 x\r\nContent-Length: 20\r\n\r\n" + SECRET.encode(),
        b"",
    ],
)
async def test_neither_a_key_nor_the_urls_query_stands_in_a_failure_or_its_traceback(
    answer: bytes, monkeypatch: Any
) -> None:
    monkeypatch.setenv("SERVICE_KEY", SECRET)
    server = RawServer(answer)
    url = f"{server.url}score?token=hidden"
    remote = Remote(RemoteSettings(url=url, api_key_env="SERVICE_KEY", **{**QUICK, "retries": 0}))
    with pytest.raises(ServiceFailure) as failure:
        await remote(Case("x"))
    error = EpisodeError.of(failure.value)
    assert "/score: " in error.reason
    for text in (error.reason, error.traceback):
        assert SECRET not in text and "hidden" not in text
    await remote.aclose()
    server.close()


async def test_bytes_that_are_no_http_are_typed_failures_too() -> None:
    draw = random.Random(11)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(60):
        answer = b"".join(draw.choices(_PIECES, k=draw.randint(1, 6)))
        if draw.random() < 0.7:
            answer = b"HTTP/1.1 200 OK\r\n" + answer
        server = RawServer(answer)
        remote = Remote(RemoteSettings(url=server.url, **{**QUICK, "retries": 0}))
        try:
            assert await remote(Case("x")) == 1.0
        except ServiceFailure as failure:
            assert len(str(failure)) < 600
        await remote.aclose()
        server.close()
    await asyncio.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before
