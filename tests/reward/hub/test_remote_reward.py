"""`remote` against a real server that scores."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from scoring_server import Serve, hangs, held, says, scores

from retrain.errors import ConfigError, RewardFailure, boundary
from retrain.reward.hub.cases import Case
from retrain.reward.hub.remote import Remote, RemoteSettings
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.runtime import EventLoopThread
from retrain.types import Message

QUICK = {"backoff": 0.01, "attempt_timeout": 2.0, "timeout": 5.0}


def length_of(item: Any) -> float:
    return len(item["response"]) / 10


async def test_a_case_is_posted_and_the_number_is_its_score(serve: Serve) -> None:
    server = serve(scores(length_of))
    remote = Remote(RemoteSettings(url=f"{server.url}/score"))
    prompt = (Message("user", "Q?"),)
    assert await remote(Case("abc", 7, {"id": 1}, prompt=prompt)) == 0.3
    (body,) = server.bodies()
    assert body == {
        "prompt": [{"role": "user", "content": "Q?"}],
        "response": "abc",
        "label": 7,
        "metadata": {"id": 1},
    }
    await remote.aclose()


async def test_slimes_protocol_has_its_three_keys_and_reads_its_replies(serve: Serve) -> None:
    server = serve(says({"reward": 0.5, "note": "x"}))
    server.next += [says("0.25"), says({"reward": 1})]
    remote = Remote(RemoteSettings(url=server.url, compat="slime"))
    given = [await remote(Case("a \\boxed{7}", "7", {"x": 1}, prompt="Q")) for _ in range(3)]
    assert given == [0.25, 1.0, 0.5]
    assert server.bodies()[0] == {"prompt": "Q", "response": "a \\boxed{7}", "label": "7"}
    await remote.aclose()


async def test_cases_that_come_together_share_requests(serve: Serve) -> None:
    server = serve(scores(length_of))
    remote = Remote(RemoteSettings(url=server.url, batch_size=8, max_delay=0.05))
    texts = ["y" * n for n in range(50)]
    given = await asyncio.gather(*(remote(Case(text)) for text in texts))
    assert given == [len(text) / 10 for text in texts]
    assert [len(body["items"]) for body in server.bodies()] == [8] * 6 + [2]
    await remote.aclose()


async def test_a_batch_that_is_not_full_is_sent_after_its_delay(serve: Serve) -> None:
    server = serve(scores(length_of))
    remote = Remote(RemoteSettings(url=server.url, batch_size=100, max_delay=0.02))
    assert await remote(Case("abc")) == 0.3
    await remote.aclose()


async def test_while_no_request_may_be_sent_a_batch_fills_up(serve: Serve) -> None:
    go = threading.Event()
    server = serve(held(go, scores(length_of)))
    remote = Remote(RemoteSettings(url=server.url, batch_size=10, max_delay=0.0, concurrency=1))
    waiting = []
    for n in range(11):
        waiting.append(asyncio.ensure_future(remote(Case("y" * n))))
        await asyncio.sleep(0.01)
    go.set()
    assert await asyncio.gather(*waiting) == [n / 10 for n in range(11)]
    assert [len(body["items"]) for body in server.bodies()] == [1, 10]
    await remote.aclose()


async def test_one_bad_score_fails_one_case_of_a_batch(serve: Serve) -> None:
    server = serve(says('{"scores": [1, NaN, "1", null, {"score": 0.5}, {"points": 2}, true]}'))
    remote = Remote(RemoteSettings(url=server.url, batch_size=7))
    given = await asyncio.gather(*(remote(Case("x")) for _ in range(7)), return_exceptions=True)
    assert (given[0], given[4]) == (1.0, 0.5)
    failed = [str(failure) for failure in given if isinstance(failure, ServiceFailure)]
    assert len(failed) == 5
    assert f"remote: POST {server.url}: nan, expected a finite number" in failed[0]
    assert "an object without 'score'" in failed[3]
    await remote.aclose()


async def test_requests_at_once_are_bounded_and_connections_kept(serve: Serve) -> None:
    server = serve(scores(length_of, seconds=0.01))
    remote = Remote(RemoteSettings(url=server.url, concurrency=5))
    given = await asyncio.gather(*(remote(Case("yy")) for _ in range(100)))
    assert given == [0.2] * 100
    assert server.most_at_once == 5
    assert server.connections == 5
    await remote.aclose()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_asked_again(serve: Serve, status: int) -> None:
    server = serve(says("1"))
    server.next += [says("busy", status), says("busy", status)]
    remote = Remote(RemoteSettings(url=server.url, **QUICK))
    assert await remote(Case("x")) == 1.0
    counted = remote.measured()
    assert (counted["requests"], counted["retries"], counted["calls"]) == (3, 2, 1)
    assert counted["seconds_p50"] > 0
    assert remote.measured()["requests"] == 0
    await remote.aclose()


async def test_a_server_says_when_to_come_back(serve: Serve) -> None:
    server = serve(says("1"))
    server.next.append(says("busy", 429, Retry_After="1"))
    remote = Remote(RemoteSettings(url=server.url, **QUICK))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await remote(Case("x")) == 1.0
    assert loop.time() - began >= 1.0
    await remote.aclose()


async def test_a_wait_that_is_asked_for_does_not_outlast_the_timeout(serve: Serve) -> None:
    server = serve(says("busy", 503, Retry_After="3600"))
    remote = Remote(RemoteSettings(url=server.url, timeout=5.0))
    with pytest.raises(ServiceFailure, match="HTTP 503: 'busy'"):
        await remote(Case("x"))
    assert len(server.seen) == 1
    await remote.aclose()


async def test_the_breaker_opens_says_so_and_closes_after_a_probe(serve: Serve) -> None:
    server = serve(says("down", 500))
    remote = Remote(
        RemoteSettings(url=server.url, retries=0, breaker_failures=3, breaker_seconds=0.8)
    )
    for _ in range(3):
        with pytest.raises(ServiceFailure, match="HTTP 500"):
            await remote(Case("x"))
    with pytest.raises(ServiceFailure, match=r"breaker is open after 3 failures.*the last: .*500"):
        await remote(Case("x"))
    assert len(server.seen) == 3
    assert remote.measured()["breaker"] == 1.0
    await asyncio.sleep(0.85)
    server.always = scores(length_of, seconds=0.1)
    given = await asyncio.gather(*(remote(Case("x")) for _ in range(4)), return_exceptions=True)
    assert [type(score) for score in given].count(float) == 1
    assert len(server.seen) == 4
    assert await remote(Case("x")) == 0.1
    assert remote.measured()["breaker"] == 0.0
    await remote.aclose()


async def test_a_probe_that_was_cut_off_leaves_room_for_another(serve: Serve) -> None:
    server = serve(says("down", 500))
    remote = Remote(
        RemoteSettings(url=server.url, retries=0, breaker_failures=1, breaker_seconds=0.05)
    )
    with pytest.raises(ServiceFailure):
        await remote(Case("x"))
    await asyncio.sleep(0.06)
    server.always = hangs
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(remote(Case("x")), 0.1)
    server.always = says("1")
    assert await remote(Case("x")) == 1.0
    await remote.aclose()


async def test_secrets_come_from_the_environment_and_are_never_shown(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCORER_KEY", "hunter2-hunter2")
    monkeypatch.setenv("SCORER_TEAM", "blue team")

    async def echo(request: Any, body: Any) -> Any:
        return await says(f"you sent {dict(request.headers)}", 401)(request, body)

    server = serve(echo)
    remote = Remote(
        RemoteSettings(
            url=f"{server.url}/s?token=abc",
            api_key_env="SCORER_KEY",
            headers_env=["X-Team: SCORER_TEAM"],
        )
    )
    with pytest.raises(ServiceFailure) as failure:
        await remote(Case("x"))
    (headers,) = [headers for _, headers, _ in server.seen]
    assert headers["Authorization"] == "Bearer hunter2-hunter2"
    assert headers["X-Team"] == "blue team"
    text = str(failure.value)
    assert "hunter2" not in text and "blue team" not in text and "token=abc" not in text
    assert "is the right key named" in text
    assert "hunter2" not in repr(remote.address) and "hunter2" not in repr(remote)
    await remote.aclose()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"url": "localhost:80"}, "is no URL"),
        ({"url": "ftp://host/x"}, "is no URL"),
        ({"url": "http://host:port/x"}, "is no URL"),
        ({"url": "http://[::1/x"}, "is no URL"),
        ({"url": "http://user:pass@host/x"}, "holds credentials"),
        ({"url": "http://h/", "batch_size": 0}, "batch_size is 0"),
        ({"url": "http://h/", "concurrency": 0}, "concurrency is 0"),
        ({"url": "http://h/", "timeout": 0.0}, "timeout is 0.0"),
        ({"url": "http://h/", "timeout": float("nan")}, "timeout is nan"),
        ({"url": "http://h/", "batch_size": 2, "compat": "slime"}, "one case a request"),
        ({"url": "http://h/", "api_key_env": "NO_SUCH_KEY"}, "export NO_SUCH_KEY"),
        ({"url": "http://h/", "headers_env": ["A b: HOME"]}, "HEADER: VARIABLE"),
    ],
)
def test_a_setting_that_cannot_be_is_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        Remote(RemoteSettings(**params))
    assert "pass" not in str(error.value).replace("password", "")


def test_a_secret_in_place_of_its_variable_is_refused_unseen() -> None:
    with pytest.raises(ConfigError, match="name of an environment variable") as error:
        Remote(RemoteSettings(url="http://h/", headers_env=["Authorization: Bearer sk-123"]))
    assert "sk-123" not in str(error.value)


async def test_the_wait_for_a_place_is_not_the_case_being_late(serve: Serve) -> None:
    server = serve(scores(length_of, seconds=0.2))
    remote = Remote(RemoteSettings(url=server.url, concurrency=1))

    async def one(n: int) -> float:
        async with boundary(RewardFailure, "reward remote", timeout=1.2):
            return await remote(Case("y" * n))

    given = await asyncio.gather(*map(one, range(10)))
    assert given == [n / 10 for n in range(10)]
    server.always = hangs
    with pytest.raises(RewardFailure, match=r"reward remote: no answer within 1.2 s"):
        await one(1)
    await remote.aclose()


def open_sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found += "socket" in os.readlink(f"/proc/self/fd/{name}")
    return found


def closed_down_to(sockets: int) -> bool:
    """Whether no more sockets than these are open once the server has noticed, without `gc`."""
    end = time.monotonic() + 5
    while open_sockets() > sockets and time.monotonic() < end:
        time.sleep(0.01)
    return open_sockets() == sockets


async def test_whoever_leaves_early_leaves_nothing_behind(serve: Serve) -> None:
    server = serve(hangs)
    before = open_sockets(), len(asyncio.all_tasks())
    remote = Remote(RemoteSettings(url=server.url, batch_size=4, concurrency=2))
    waiting = [asyncio.ensure_future(remote(Case("x"))) for _ in range(20)]
    await asyncio.sleep(0.2)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) == before[1]
    server.always = says("[1]")
    assert await remote(Case("x")) == 1.0
    await remote.aclose()
    assert closed_down_to(before[0])


async def many(remote: Remote) -> None:
    assert set(await asyncio.gather(*(remote(Case("abc")) for _ in range(10)))) == {0.3}


def test_every_event_loop_has_its_own_connections_and_takes_them_along(serve: Serve) -> None:
    server = serve(scores(length_of))
    before = open_sockets()
    remote = Remote(RemoteSettings(url=server.url))
    for _ in range(3):
        asyncio.run(many(remote))
        assert closed_down_to(before)


def test_connections_end_with_the_run_before_or_after_its_loop(serve: Serve) -> None:
    server = serve(scores(length_of))
    before = open_sockets()
    remote = Remote(RemoteSettings(url=server.url))
    with EventLoopThread() as loop:
        loop.run(many(remote))
        assert open_sockets() > before + 10
        remote.close()
    assert closed_down_to(before)
    with EventLoopThread() as loop:
        loop.run(many(remote))
    remote.close()
    assert closed_down_to(before)


async def test_closing_ends_what_runs_and_a_later_case_begins_anew(serve: Serve) -> None:
    server = serve(hangs)
    remote = Remote(RemoteSettings(url=server.url, **QUICK))
    waiting = asyncio.ensure_future(remote(Case("x")))
    await asyncio.sleep(0.1)
    await remote.aclose()
    with pytest.raises(ServiceFailure) as failure:
        await waiting
    assert failure.value.kind in (FaultKind.CLOSED, FaultKind.CONNECTION)
    server.always = says("1")
    assert await remote(Case("x")) == 1.0
    await remote.aclose()
