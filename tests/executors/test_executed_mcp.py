"""MCP servers of environments that live in worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from living_processes import ended

from retrain.environment import make_environment_factory
from retrain.errors import ToolFailure
from retrain.rollout.executors.base import placed
from retrain.rollout.executors.crew import CrewSettings
from retrain.rollout.executors.making import make_origin
from retrain.rollout.executors.pool import WorkerPool
from retrain.rollout.executors.process import ProcessLauncher
from retrain.types import Action, Task, ToolCall

PLAIN = Path(__file__).parent.parent / "environment" / "mcp_servers" / "plain_server.py"


def launcher(kind: str) -> Any:
    if kind == "process":
        return ProcessLauncher()
    pytest.importorskip("ray", reason="needs Ray: pip install 'retrain[ray]'")
    from retrain.rollout.executors.ray_actors import ActorOptions, RayLauncher

    return RayLauncher(ActorOptions(1.0, {}), workers=1)


def make_pool(kind: str) -> WorkerPool:
    config: dict[str, Any] = {"servers": {"s": {"command": "python", "args": ["-S", str(PLAIN)]}}}
    settings = CrewSettings(workers=1, episodes_per_worker=4, max_restarts=1, grace=10.0)
    factory = make_environment_factory("mcp", config)
    return WorkerPool(launcher(kind), make_origin("mcp", config), settings, factory, worlds=False)


def ask(what: str) -> Action:
    return Action(tool_calls=(ToolCall("do", {"what": what}),))


@pytest.mark.parametrize("kind", ["process", pytest.param("ray", marks=pytest.mark.soak)])
async def test_servers_live_in_the_worker_and_end_with_it(kind: str) -> None:
    pool = make_pool(kind)
    pids: list[int] = []
    try:
        first, second = pool.make(), pool.make()
        async with placed(first), placed(second):
            found = await first.discover_tools()
            for environment in (first, second):
                await environment.reset(Task("t", "Go."), 0)
                assert environment.tools == found
                result = await environment.step(ask("spawn"))
                pids += map(int, result.observation.messages[0].content.split())
            with pytest.raises(ToolFailure, match=r"it ended with status 3; its last words: the"):
                await first.step(ask("die"))
            await first.close()
            await second.close()
    finally:
        pool.close()

    assert await ended(*pids)
    assert pids[0] == pids[3]
    assert [schema["function"]["name"] for schema in found] == ["echo", "do", "look"]
