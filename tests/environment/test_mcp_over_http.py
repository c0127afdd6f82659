"""MCP servers over HTTP that go away, flood, or send elsewhere what is secret."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from mcp_episodes import TASK, call, episode, make
from mcp_servers.plain_http_server import serving

from retrain.environment.mcp.flow import Flow
from retrain.errors import ConfigError, ToolFailure

SECRET = "a-long-secret"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_SECRET", SECRET)


def at(port: int) -> dict[str, Any]:
    return {"s": {"url": f"http://127.0.0.1:{port}/mcp", "headers_env": {"X-Key": "HTTP_SECRET"}}}


async def test_every_request_carries_the_headers_and_no_answer_shows_their_secrets() -> None:
    with serving() as (port, seen):
        async with episode(at(port)) as world:
            assert await call(world, ("fetch", {"what": "key"})) == ["key: [HTTP_SECRET]"]

    assert {headers["X-Key"] for headers in seen} == {SECRET}


async def test_a_server_that_went_away_fails_the_episode_and_is_found_again() -> None:
    with serving() as (port, _):
        async with episode(at(port)) as world:
            assert len(await call(world, ("fetch", {"what": "a"}))) == 1
    with pytest.raises(ToolFailure, match="MCP server 's'"):
        async with episode(at(port)) as world:
            await call(world, ("fetch", {"what": "b"}))
    with serving(port):
        async with episode(at(port)) as world:
            assert await call(world, ("fetch", {"what": "c"})) == ["c: [HTTP_SECRET]"]


async def test_an_answer_that_floods_fails_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrain.environment.mcp.opening.Flow", partial(Flow, most_bytes=2**20))
    with serving() as (port, _):
        async with episode(at(port)) as world:
            with pytest.raises(ToolFailure, match="more than 1 MiB without an answer"):
                await call(world, ("fetch", {"what": "flood"}))


async def test_secrets_do_not_follow_a_redirect_to_another_server() -> None:
    with serving() as (port, seen), ExitStack() as other:
        first, _ = other.enter_context(serving(elsewhere=f"http://127.0.0.1:{port}/mcp"))
        with pytest.raises(ConfigError, match=r"servers\.s: MCP server 's': start"):
            await make(at(first)).reset(TASK, 0)

    assert seen == []


def over_sse(port: int, **more: Any) -> dict[str, Any]:
    server = at(port)["s"] | {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse", **more}
    return {"s": server}


async def test_a_server_that_speaks_over_sse_alone_is_used_and_shows_no_secret() -> None:
    with serving() as (port, seen):
        async with episode(over_sse(port)) as world:
            assert [schema["function"]["name"] for schema in world.tools] == ["fetch"]
            assert await call(world, ("fetch", {"what": "key"})) == ["key: [HTTP_SECRET]"]

    assert {headers["X-Key"] for headers in seen} == {SECRET}


async def test_an_answer_over_sse_that_floods_fails_the_episode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retrain.environment.mcp.opening.Flow", partial(Flow, most_bytes=2**19))
    with serving() as (port, _):
        async with episode(over_sse(port)) as world:
            with pytest.raises(ToolFailure, match=r"more than 0\.5 MiB without an answer"):
                await call(world, ("fetch", {"what": "flood"}))


async def test_secrets_do_not_follow_an_sse_server_to_another_address() -> None:
    with serving() as (port, seen), ExitStack() as other:
        first, _ = other.enter_context(serving(elsewhere=f"http://127.0.0.1:{port}/messages"))
        with pytest.raises(ConfigError, match=r"servers\.s: it did not say what tools it has"):
            await make(over_sse(first, start_timeout=0.5)).reset(TASK, 0)

    assert seen == []


async def test_a_server_without_streamable_http_is_told_apart() -> None:
    with serving() as (port, _):
        servers = {"s": {"url": f"http://127.0.0.1:{port}/gone"}}
        with pytest.raises(ConfigError, match=r"if it speaks over SSE alone, set .*transport: sse"):
            await make(servers).reset(TASK, 0)
