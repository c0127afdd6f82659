"""`examples/mcp_tools`: its server, and that it is the calculator of the built-in environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrain.config import load_config
from retrain.environment import Environment, make_environment_factory
from retrain.environment.arithmetic import evaluate, format_number
from retrain.types import Action, Task, ToolCall

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def server_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the server be imported from the example's folder; forget it afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "mcp_tools"))
    monkeypatch.syspath_prepend(str(EXAMPLES / "calculator"))
    yield
    for name in ("server", "tasks"):
        sys.modules.pop(name, None)


async def ask(environment: Environment, *expressions: str) -> list[str]:
    calls = tuple(ToolCall("calculator", {"expression": one}) for one in expressions)
    result = await environment.step(Action(tool_calls=calls))
    return [message.content for message in result.observation.messages]


async def test_the_server_calculates_as_the_built_in_calculator_does() -> None:
    from tasks import draw_tasks

    wholes = [task.whole for task in draw_tasks(50, seed=1)]
    servers = {"arithmetic": {"module": "server:mcp", "deny": ["shut_down"]}}
    environment = make_environment_factory("mcp", {"servers": servers})()
    await environment.reset(Task("t", "Go."), 0)

    assert [tool["function"]["name"] for tool in environment.tools] == ["calculator"]
    assert await ask(environment, *wholes) == [format_number(evaluate(w)) for w in wholes]
    wrong = await ask(environment, "2**9", "1+", "__import__('os')", "+".join("1" * 5000))
    assert all(text.startswith("Error: cannot compute") for text in wrong)
    await environment.close()


def test_the_configuration_is_that_of_the_calculator_behind_a_server() -> None:
    mcp = load_config(EXAMPLES / "mcp_tools" / "config.yaml")
    calculator = load_config(EXAMPLES / "calculator" / "config.yaml")

    assert mcp.environment.type == "mcp"
    assert mcp.environment.env_specific_config["max_turns"] == 4
    make_environment_factory(mcp.environment.type, mcp.environment.env_specific_config)
    server = mcp.environment.env_specific_config["servers"]["arithmetic"]
    assert (ROOT / server["args"][0]).is_file()
    imitation, same = mcp.stage_config(0), calculator.stage_config(0)
    assert imitation.algorithm.hyperparameters == same.algorithm.hyperparameters
