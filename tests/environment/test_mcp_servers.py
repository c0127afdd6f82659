"""Real FastMCP servers over standard streams, HTTP and in process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp_episodes import REAL, TASK, call, do, episode, make, plain

from retrain.environment import tool
from retrain.environment.tool_text import images_beside
from retrain.errors import ToolFailure
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Task

IN_PROCESS = {"module": "mcp_servers.fastmcp_server:make_server"}


@pytest.fixture(scope="module")
def http_server() -> Iterator[dict[str, Any]]:
    with serving() as port:
        yield {"url": f"http://127.0.0.1:{port}/mcp"}


@pytest.fixture(scope="module")
def sse_server() -> Iterator[dict[str, Any]]:
    with serving("sse") as port:
        yield {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse"}


@contextmanager
def serving(*speaking: str) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, REAL, str(port), *speaking]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["stdio", "http", pytest.param("sse", marks=pytest.mark.soak), "module"])
def server(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "stdio":
        return {"command": "python", "args": [REAL]}
    if request.param in ("http", "sse"):
        return request.getfixturevalue(f"{request.param}_server")
    return IN_PROCESS


async def test_a_fastmcp_server_is_used_unchanged(server: dict[str, Any]) -> None:
    async with episode({"points": server}, check_answer="number") as world:
        names = [schema["function"]["name"] for schema in world.tools]
        assert names == ["shift", "keep", "refuse", "crowd"]
        shift = world.tools[0]["function"]
        assert shift["description"] == "Shift points along x."
        point = shift["parameters"]["properties"]["points"]["items"]
        assert point["properties"] == {
            "x": {"type": "integer"},
            "y": {"type": "integer", "default": 0},
        }

        assert await call(
            world,
            ("shift", {"points": [{"x": 1}, {"x": 2}], "by": 3}),
            ("shift", {"points": '[{"x": 5}]'}),
            ("shift", {"points": [{"x": "one"}], "to": 1}),
            ("shift", {}),
            ("refuse", {"why": "closed"}),
        ) == [
            "[4,5]",
            "[6]",
            "Error: bad arguments for shift: to: there is no such argument; "
            "points.0.x: expected integer, got 'one'",
            "Error: bad arguments for shift: points: missing",
            "Error: no: closed",
        ]
        result = await world.step(Action("It is 42."))
        assert (result.reward, result.terminated) == (1.0, True)


async def test_a_shared_server_keeps_its_state_and_an_isolated_one_begins_anew() -> None:
    words = {}
    for isolation in ("shared", "episode"):
        for _ in range(2):
            async with episode({"points": IN_PROCESS}, isolation=isolation) as world:
                (words[isolation],) = await call(world, ("keep", {"word": "x"}))

    assert words == {"shared": "2 words", "episode": "1 words"}


async def test_episodes_at_once_share_one_connection_or_have_their_own() -> None:
    async def pids(isolation: str) -> set[str]:
        async def one() -> str:
            async with episode({"s": plain()}, isolation=isolation) as world:
                return (await do(world, "spawn")).split()[0]

        return set(await asyncio.gather(*(one() for _ in range(6))))

    assert len(await pids("shared")) == 1
    assert len(await pids("episode")) == 6


async def test_calls_of_one_turn_run_together_and_answers_keep_their_order() -> None:
    texts = [str(number) * 3 for number in range(20)]
    async with episode({"s": plain()}) as world:
        assert await call(world, *(("echo", {"text": text}) for text in texts)) == texts


@pytest.mark.parametrize(("allowed", "most"), [(2, 2), (16, 8)])
async def test_a_connection_carries_no_more_calls_at_once_than_allowed(
    allowed: int, most: int
) -> None:
    server = {**IN_PROCESS, "max_calls": allowed}
    async with episode({"points": server}, isolation="episode") as world:
        counts = await call(world, *[("crowd", {})] * 8)

    assert max(map(int, counts)) == most


async def test_arguments_are_checked_against_the_schema() -> None:
    calls = {
        "aa": {"text": "a", "times": "2"},
        "times: expected integer, got 'two'": {"text": "a", "times": "two"},
        "times: 0 is less than the minimum of 1": {"text": "a", "times": 0},
        "mood: expected one of 'calm', 'loud', got 'sad'": {"text": "a", "mood": "sad"},
        "txt: there is no such argument; text: missing": {"txt": "a"},
        "text: expected string, got 7": {"text": 7},
    }
    async with episode({"s": plain()}) as world:
        texts = await call(world, *(("echo", arguments) for arguments in calls.values()))

    assert [text.removeprefix("Error: bad arguments for echo: ") for text in texts] == list(calls)


@pytest.mark.parametrize(
    ("policy", "said"),
    [("message", "Error: I cannot fly"), ("type", "Error: do failed")],
)
async def test_a_tool_that_says_that_it_failed_is_told_to_the_model(policy: str, said: str) -> None:
    async with episode({"s": plain()}, tool_errors=policy) as world:
        assert await do(world, "fly") == said


async def test_a_tool_that_says_that_it_failed_fails_the_episode_where_that_is_chosen() -> None:
    async with episode({"s": plain()}, tool_errors="fail") as world:
        with pytest.raises(ToolFailure, match="tool do: Error: I cannot fly"):
            await do(world, "fly")


async def test_an_image_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRAIN_IMAGES", str(tmp_path))
    async with episode({"s": plain()}) as world:
        (answer,) = await call(world, ("look", {}))
    (image,) = images_beside(answer)
    assert Path(image.source).read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert answer == ""


async def test_what_is_no_message_is_left_out_and_a_long_answer_is_cut() -> None:
    async with episode({"s": plain()}, max_result_chars=100) as world:
        assert await do(world, "junk") == "fine"
        mark = "[cut: these are the first 100 of 50000 characters]"
        assert (await do(world, "long")).endswith(mark)


async def test_only_allowed_tools_are_offered_and_called() -> None:
    async with episode({"s": plain(allow=["e*", "do"], deny=["do"])}) as world:
        assert [schema["function"]["name"] for schema in world.tools] == ["echo"]
        assert await do(world, "die") == "Error: there is no tool 'do'. Tools: echo"


@tool
def local(text: str) -> str:
    """Stay here."""
    return text.upper()


async def test_tools_of_this_process_stand_beside_those_of_servers() -> None:
    async with episode({"s": plain()}, tools=[f"{__name__}:local"]) as world:
        assert world.tools[0]["function"]["name"] == "local"
        assert await call(world, ("local", {"text": "a"}), ("echo", {"text": "b"})) == ["A", "b"]


async def test_a_task_chooses_among_the_tools_of_servers() -> None:
    world = make({"s": plain()})
    await world.reset(Task("t", "Go.", metadata={"tools": ["do"]}), 0)

    assert [schema["function"]["name"] for schema in world.tools] == ["do"]
    assert [s["function"]["name"] for s in await world.discover_tools()] == ["echo", "do", "look"]
    await world.close()


async def test_tools_are_discovered_without_an_episode_and_before_one() -> None:
    world = make({"s": plain()})
    assert world.tools == ()

    found = await world.discover_tools()
    await world.reset(TASK, 0)

    assert [schema["function"]["name"] for schema in found] == ["echo", "do", "look"]
    assert world.tools == found
    await world.close()


class TestConformance(EnvironmentSuite):
    def make_environment(self) -> Any:
        servers = {"points": {**IN_PROCESS, "allow": ["shift"]}}
        return make(servers, max_turns=3, isolation="episode")
