"""MCP servers that die, flood, hang and lie: named at start-up, or a failed episode."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from living_processes import alive, ended
from mcp_episodes import PLAIN, call, children, do, episode, plain

from retrain.environment.mcp.flow import Flow
from retrain.errors import Boundary, ConfigError, ToolFailure
from retrain.runtime import EventLoopThread


@pytest.fixture(autouse=True)
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floods are noticed sooner, so that they cost less."""
    bounded = partial(Flow, most_bytes=2**20, most_messages=200)
    monkeypatch.setattr("retrain.environment.mcp.opening.Flow", bounded)


START = r"environment\.env_specific_config\.servers\.s: "


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("dies", START + r".*it ended with status 3; its last words: the disk is full"),
        ("floods", START + r".*it was ended, since it said more than 1 MiB without an answer"),
        ("no-list", START + r".*tools/list: .*should be a valid list"),
        ("no-object", START + r".*tools/list: .*inputSchema.type"),
        ("empty", START + r"offers no tool \(it has none\)"),
        ("bad-schema", r"'echo': its input schema is invalid at properties\.x\.type: 7 is not"),
        ("bad-reference", r"'echo': its input schema refers to '#/\$defs/missing', which it lacks"),
        ("bad-name", r"tool 'say it': a tool's name has 1 to 128"),
        ("huge", r"'echo': its description has 600\d\d characters.*deny the tool"),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_at_start_up(mode: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        async with episode({"s": plain(mode)}):
            pass

    assert "\n" not in str(raised.value)
    assert await ended(*children())


async def test_a_server_that_does_not_answer_at_start_up_is_named_and_ended() -> None:
    with pytest.raises(ConfigError, match=START + r"it did not say .* within 0\.3 s"):
        async with episode({"s": plain("hangs", start_timeout=0.3)}):
            pass

    assert await ended(*children())


async def test_two_tools_of_one_name_are_refused_and_a_prefix_tells_them_apart() -> None:
    with pytest.raises(ConfigError, match=r"servers: a and b both have a tool 'echo'; .*prefix"):
        async with episode({"a": plain(), "b": plain()}):
            pass

    async with episode({"a": plain(), "b": plain(prefix="b_", allow=["ec*"])}) as world:
        names = [schema["function"]["name"] for schema in world.tools]
        assert names == ["echo", "do", "look", "b_echo"]
        assert await call(world, ("b_echo", {"text": "hi"})) == ["hi"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("die", r"^MCP server 's': it ended with status 3; its last words: the disk is full$"),
        ("flood", r"^MCP server 's': it was ended, since it said more than 1 MiB without"),
        ("notify", r"^MCP server 's': it was ended, since it said more than 200 messages"),
    ],
)
async def test_a_server_that_fails_in_a_call_fails_the_episode(what: str, said: str) -> None:
    with pytest.raises(ToolFailure, match=said) as failure:
        async with episode({"s": plain()}, tool_timeout=20.0) as world:
            await do(world, what)

    assert failure.value.boundary is Boundary.TOOL


async def test_a_call_that_hangs_fails_its_episode_and_the_server_is_replaced() -> None:
    servers = {"s": plain()}
    async with episode(servers, tool_timeout=0.2) as world:
        with pytest.raises(ToolFailure, match=r"tool do: no answer within 0\.2 s"):
            await do(world, "hang")
        async with asyncio.timeout(20):
            async with episode(servers) as after:
                assert await do(after, "junk") == "fine"
            with pytest.raises(ToolFailure, match="does not answer any more"):
                await do(world, "junk")


async def test_a_shared_server_that_died_is_started_again_for_the_next_episode() -> None:
    servers = {"s": plain()}
    async with episode(servers) as one, episode(servers) as other:
        with pytest.raises(ToolFailure, match="status 3"):
            await do(one, "die")
        with pytest.raises(ToolFailure, match=r"tool do: MCP server 's': it ended with status 3"):
            await do(other, "junk")
        async with episode(servers) as next_one:
            assert await do(next_one, "junk") == "fine"
            with pytest.raises(ToolFailure, match="status 3"):
                await do(one, "junk")


async def test_restarts_in_a_row_are_bounded_and_an_answer_ends_the_row() -> None:
    servers = {"s": plain()}
    for _ in range(4):
        async with episode(servers, max_restarts=2) as world:
            await do(world, "junk")
            with pytest.raises(ToolFailure):
                await do(world, "die")
    for _ in range(2):
        async with episode(servers, max_restarts=2) as world:
            with pytest.raises(ToolFailure, match="it ended with status 3"):
                await do(world, "die")
    with pytest.raises(ToolFailure, match=r"started 2 times .* not started again \(max_restarts\)"):
        async with episode(servers, max_restarts=2):
            pass


async def test_a_server_that_cannot_be_started_again_fails_episodes_only(tmp_path: Path) -> None:
    mark = tmp_path / "used"
    servers = {"s": plain("dies-once-used", str(mark))}
    async with episode(servers) as world:
        mark.touch()
        with pytest.raises(ToolFailure):
            await do(world, "die")
    with pytest.raises(ToolFailure, match="it ended with status 3"):
        async with episode(servers):
            pass


async def test_tools_that_change_during_the_run_fail_the_episodes_that_follow() -> None:
    servers = {"s": plain()}
    async with episode(servers) as world:
        shown = world.tools
        assert await do(world, "change") == "changed"
        assert world.tools == shown
        assert await do(world, "junk") == "fine"
    with pytest.raises(ToolFailure, match=r"'s' has another description or schema of echo, other"):
        async with episode(servers):
            pass


async def test_tools_that_change_are_warned_of_where_that_is_chosen(tmp_path: Path) -> None:
    mark = tmp_path / "used"
    servers = {"s": plain("changes-once-used", str(mark))}
    options = {"isolation": "episode", "on_tools_changed": "warn"}
    async with episode(servers, **options) as world:
        shown = world.tools
    mark.touch()
    with pytest.warns(UserWarning, match="'s' no longer offers look.*prompts show the tools as"):
        async with episode(servers, **options) as world:
            assert world.tools == shown


async def test_a_new_tool_changes_nothing() -> None:
    servers = {"s": plain()}
    async with episode(servers) as world:
        assert await do(world, "add") == "added"
    async with episode(servers) as world:
        assert [schema["function"]["name"] for schema in world.tools] == ["echo", "do", "look"]


async def test_nothing_that_a_server_has_started_outlives_the_episode() -> None:
    async with episode({"s": plain()}, isolation="episode") as world:
        pids = [int(pid) for pid in (await do(world, "spawn")).split()]

    assert await ended(*pids)


async def test_what_a_server_that_died_has_started_is_ended_too() -> None:
    async with episode({"s": plain()}) as world:
        pids = [int(pid) for pid in (await do(world, "spawn")).split()]
        with pytest.raises(ToolFailure):
            await do(world, "die")
        assert await ended(*pids)


_RUN = """
import asyncio, json, sys
from retrain.environment.mcp.flow import Flow
from retrain.environment.mcp.process import ServerProcess

async def main():
    server = await ServerProcess.start([sys.executable, "-S", sys.argv[1]], {}, None, Flow())
    call = {"name": "do", "arguments": {"what": "spawn"}}
    await server.send(json.dumps({"id": 1, "method": "tools/call", "params": call}).encode())
    async for line in server.lines():
        print(json.loads(line)["result"]["content"][0]["text"], flush=True)

asyncio.run(main())
"""


async def test_no_server_outlives_a_process_that_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RUN, PLAIN), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        pids = [int(pid) for pid in (await process.stdout.readline()).split()]
        assert len(pids) == 3
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    assert await ended(*pids)


def test_servers_end_with_the_event_loop_that_played() -> None:
    async def play() -> list[int]:
        async with episode({"s": plain()}) as world:
            return [int(pid) for pid in (await do(world, "spawn")).split()]

    with EventLoopThread() as loop:
        pids = loop.run(play())
        assert all(map(alive, pids))
    assert asyncio.run(ended(*pids))


async def test_endless_complaints_end_the_server() -> None:
    async with episode({"s": plain()}, tool_timeout=20.0) as world:
        spent = time.process_time()
        with pytest.raises(ToolFailure, match="more than 1 MiB without an answer"):
            await do(world, "complain")
        assert time.process_time() - spent < 0.6
