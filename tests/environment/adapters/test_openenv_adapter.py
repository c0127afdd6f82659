"""`type: openenv`: servers that run the package's own code, over the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="needs OpenEnv: pip install openenv")

from openenv_world import APPS, echo_app, serving

from retrain.environment import Environment, make_environment_factory
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.testing import EnvironmentSuite
from retrain.testing.environment_playing import MakeEnvironment
from retrain.types import Action, Task, ToolCall


def made(url: str, **config: Any) -> Environment:
    return make_environment_factory("openenv", {"base_url": url, **config})()


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(echo_app(Path(tmp_path_factory.mktemp("openenv")))) as url:
        yield url


@pytest.fixture(scope="module")
def guess() -> Iterator[str]:
    with serving(APPS["guess"]()) as url:
        yield url


@pytest.fixture(scope="module")
def grid() -> Iterator[str]:
    with serving(APPS["grid"]()) as url:
        yield url


@pytest.fixture(scope="module")
def notes() -> Iterator[str]:
    with serving(APPS["notes"]()) as url:
        yield url


class TestItsOwnTemplate(EnvironmentSuite):
    """The environment that `openenv init` writes."""

    @pytest.fixture
    def fresh_environment(self, echo: str) -> MakeEnvironment:
        return partial(made, echo)


class TestGuess(EnvironmentSuite):
    answer = "4"

    @pytest.fixture
    def fresh_environment(self, guess: str) -> MakeEnvironment:
        return partial(made, guess, observation="said")


class TestGrid(EnvironmentSuite):
    @pytest.fixture
    def fresh_environment(self, grid: str) -> MakeEnvironment:
        return partial(made, grid)


class TestNotes(EnvironmentSuite):
    task = Task("kit", "Write a note.")
    other_task = Task("other", "Write two notes.")

    @pytest.fixture
    def fresh_environment(self, notes: str) -> MakeEnvironment:
        return partial(made, notes)


async def test_text_goes_into_the_one_text_field(guess: str) -> None:
    environment = made(guess)
    prompt = await environment.reset(Task("t", "", metadata={"name": "Ann"}), 2**62)
    said = []
    for number in range(1, 10):
        said.append(await environment.step(Action(str(number))))
        if said[-1].terminated:
            break
    await environment.close()

    assert prompt.messages[0].content == "Which number, Ann?"
    assert environment.tools == ()
    assert [r.reward for r in said[:-1]] == [-0.1] * (len(said) - 1)
    assert (said[-1].reward, said[-1].terminated) == (1.0, True)


async def test_an_action_of_several_fields_is_a_tool(grid: str) -> None:
    environment = made(grid)
    prompt = await environment.reset(Task("t", "Go to 3, 1."), 1)
    (tool,) = environment.tools
    calls = ({"x": 2}, {"x": "east"}, {"x": 1, "y": 1}, {"x": 9})
    actions = tuple(ToolCall("act", data, str(n)) for n, data in enumerate(calls))
    wrong = await environment.step(Action(tool_calls=actions[1:2]))
    right = await environment.step(Action(tool_calls=(actions[0], *actions[2:])))
    await environment.close()

    assert prompt.messages[0].content == "Go to 3, 1.\n\nx: 0\ny: 0"
    assert tool["function"]["description"] == "Move by x and y."
    assert tool["function"]["parameters"]["required"] == ["x"]
    assert wrong.observation.messages[0].content.startswith("Error: server: Invalid message")
    assert "x: Input should be a valid integer" in wrong.observation.messages[0].content
    assert (right.reward, right.terminated) == (1.0, True)


async def test_the_environment_s_own_tools_are_called(notes: str) -> None:
    environment = made(notes)
    await environment.reset(Task("t", "Write."), 1)
    calls = (ToolCall("add", {"text": "a"}, "1"), ToolCall("count", {}, "2"), ToolCall("x", {}))
    result = await environment.step(Action(tool_calls=calls))
    end = await environment.step(Action("Done."))
    await environment.close()

    assert [t["function"]["name"] for t in environment.tools] == ["add", "count"]
    first, second, third = result.observation.messages
    assert (first.role, first.tool_call_id, first.content) == ("tool", "1", "1 notes")
    assert second.content == "1"
    assert third.content.startswith("Error: Unknown tool")
    assert end.terminated


async def test_a_server_that_breaks_fails_the_episode(guess: str) -> None:
    environment = made(guess)
    await environment.reset(Task("t", ""), 1)

    with pytest.raises(EnvironmentFailure, match=r"the world broke \(EXECUTION_ERROR\)"):
        await environment.step(Action("crash"))
    await environment.close()


async def test_a_server_that_goes_away_fails_the_episode() -> None:
    with serving(APPS["guess"]()) as url:
        environment = made(url)
        await environment.reset(Task("t", ""), 1)
    with pytest.raises(EnvironmentFailure, match=r"the server ended the session during step"):
        await environment.step(Action("1"))
    await environment.close()
    with pytest.raises(EnvironmentFailure, match="ClientConnectorError"):
        await made(url).reset(Task("t", ""), 1)


async def test_a_full_server_is_waited_for_and_then_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(APPS["narrow"]()) as url:
        first, second, third = made(url), made(url), made(url)
        await first.reset(Task("t", ""), 1)
        waiting = asyncio.create_task(second.reset(Task("t", ""), 1))
        await asyncio.sleep(0.1)
        await first.close()
        assert (await waiting).messages[0].content == "Which number, you?"
        monkeypatch.setattr("retrain.environment.adapters.openenv_session._ATTEMPTS", 2)
        with pytest.raises(EnvironmentFailure, match=r"set rollout\.concurrency to at most what"):
            await third.reset(Task("t", ""), 1)
        for environment in (second, third):
            await environment.close()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"action": "txt"}, "an action has no 'txt'; did you mean 'text'"),
        ({"observation": "sad"}, "the observation has no entry 'sad'; did you mean 'said'"),
    ],
)
async def test_a_wrong_field_is_named(guess: str, config: dict[str, Any], said: str) -> None:
    environment = made(guess, **config)

    with pytest.raises((ConfigError, EnvironmentFailure), match=said):
        await environment.reset(Task("t", ""), 1)
    await environment.close()
