"""`type: function`: one function is the world."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retrain.environment import Environment, make_environment_factory
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Task, ToolCall

HERE = __name__
THREADS: list[str] = []
PAIRS = {"three": (1, 2, 3), "pair": (None, 0.5)}


def parrot(messages: list[dict[str, Any]], *, times: int = 1) -> str | None:
    """Says what the model said, until it has spoken three times."""
    THREADS.append(threading.current_thread().name)
    spoken = [m["content"] for m in messages if m["role"] == "assistant"]
    return None if len(spoken) > 2 else f"You said: {spoken[-1] * times}"


async def judge(messages: list[dict[str, Any]], task: Task, *, seed: int) -> Any:
    await asyncio.sleep(0)
    right = messages[-1]["content"].strip() == task.label
    messages.clear()
    return (
        ("Try again.", 0.25) if not right else {"reward": 1, "done": True, "info": {"seed": seed}}
    )


def anything(messages: list[dict[str, Any]], *, value: Any) -> Any:
    return PAIRS.get(value, value) if isinstance(value, str) else value


def made(function: str, **arguments: Any) -> Environment:
    config: dict[str, Any] = {"function": f"{HERE}:{function}"}
    return make_environment_factory("function", {**config, "arguments": arguments})()


class TestParrot(EnvironmentSuite):
    def make_environment(self) -> Any:
        return made("parrot")


class TestJudge(EnvironmentSuite):
    answer = "4"

    def make_environment(self) -> Any:
        return made("judge")


async def test_it_gets_all_that_was_said_and_answers_as_the_user() -> None:
    environment = made("parrot", times=2)
    await environment.reset(Task("t", "Speak."), 1)
    results = [await environment.step(Action(text)) for text in ("ab", "c", "d")]
    await environment.close()

    assert [m.content for r in results for m in r.observation.messages] == [
        "You said: abab",
        "You said: cc",
    ]
    assert [r.terminated for r in results] == [False, False, True]
    assert THREADS[-1] == "retrain-function"


async def test_an_asynchronous_one_may_rate_and_end() -> None:
    environment = made("judge")
    await environment.reset(Task("t", "2 + 2?", "4"), 9)
    results = [await environment.step(Action(text)) for text in ("5", " 4 ")]
    await environment.close()

    assert [(r.reward, r.terminated) for r in results] == [(0.25, False), (1.0, True)]
    assert results[1].info == {"seed": 9}


@pytest.mark.parametrize(
    ("value", "reward", "ended"),
    [
        ("Go on.", 0.0, False),
        (None, 0.0, True),
        ("pair", 0.5, True),
        ({"role": "tool", "content": "7"}, 0.0, False),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], 0.0, False),
        ({"reply": "Last.", "done": True, "reward": 2}, 2.0, True),
    ],
)
async def test_every_form_of_answer_is_read(value: Any, reward: float, ended: bool) -> None:
    environment = made("anything", value=value)
    await environment.reset(Task("t", "x"), 1)
    result = await environment.step(Action(tool_calls=(ToolCall("t", {"a": 1}, "id"),)))
    await environment.close()

    assert (result.reward, result.terminated) == (reward, ended)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("three", r"returned \(1, 2, 3\); expected the reply as text"),
        (7, "step returned int 7; expected"),
        ({"rewrd": 1}, "returned the key 'rewrd'; did you mean 'reward'"),
        ({"reward": 1, "done": False}, "step returned None; expected"),
        ({"reply": "x", "reward": "much"}, "as reward; expected a number"),
    ],
)
async def test_an_answer_of_another_form_fails_with_the_reason(value: Any, said: str) -> None:
    environment = made("anything", value=value)
    await environment.reset(Task("t", "x"), 1)

    with pytest.raises(EnvironmentFailure, match=said):
        await environment.step(Action("a"))
    await environment.close()


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("parot", {}, "did you mean 'parrot'"),
        ("HERE", {}, "is no function"),
        ("parrot", {"tims": 2}, r"cannot be called with \(messages\) and \['tims'\]"),
        ("anything", {}, "missing a required .*argument: 'value'"),
    ],
)
def test_what_cannot_be_called_is_refused_before_an_episode(
    function: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        made(function, **arguments)
