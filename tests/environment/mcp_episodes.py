"""Episodes with MCP servers, for the tests of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from retrain.environment import Environment, make_environment_factory
from retrain.types import Action, Task, ToolCall

SERVERS = Path(__file__).parent / "mcp_servers"
PLAIN = str(SERVERS / "plain_server.py")
REAL = str(SERVERS / "fastmcp_server.py")
TASK = Task("t", "Go.", label="42")


def plain(mode: str = "good", *args: str, **config: Any) -> dict[str, Any]:
    """The configuration of a server that does as `mode` says."""
    return {"command": "python", "args": ["-S", PLAIN, mode, *args], **config}


def make(servers: Mapping[str, Any], **options: Any) -> Environment:
    """An environment for one episode."""
    return make_environment_factory("mcp", {"servers": dict(servers), **options})()


@asynccontextmanager
async def episode(servers: Mapping[str, Any], **options: Any) -> AsyncIterator[Environment]:
    """An episode that has begun, and is closed at the end."""
    environment = make(servers, **options)
    try:
        await environment.reset(TASK, 0)
        yield environment
    finally:
        await environment.close()


async def call(environment: Environment, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """What the model reads of the calls of one turn."""
    made = tuple(ToolCall(name, arguments, f"c{i}") for i, (name, arguments) in enumerate(calls))
    result = await environment.step(Action(tool_calls=made))
    assert [message.tool_call_id for message in result.observation.messages] == [
        one.id for one in made
    ]
    return [message.content for message in result.observation.messages]


async def do(environment: Environment, what: str) -> str:
    """What the plain server's tool `do` answers."""
    (text,) = await call(environment, ("do", {"what": what}))
    return text


def children() -> list[int]:
    """The processes that this one has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
