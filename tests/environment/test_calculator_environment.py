"""The calculator environment, from prompt to reward."""

from __future__ import annotations

from typing import Any

import pytest

from retrain.environment import make_environment_factory
from retrain.environment.base import Environment
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.types import Action, StepResult, Task, ToolCall


async def begin(label: Any = 225, **config: Any) -> Environment:
    environment = make_environment_factory("calculator", config)()
    await environment.reset(Task("t", "What is 15 * 15?", label=label), 0)
    return environment


async def compute(environment: Environment, expression: str) -> StepResult:
    return await environment.step(
        Action(tool_calls=(ToolCall("calculator", {"expression": expression}, "1"),))
    )


async def test_the_tool_computes_and_the_answer_is_rewarded() -> None:
    environment = await begin()

    reply = await compute(environment, "15 * 15")
    final = await environment.step(Action("The result of 15 * 15 is 225."))

    (message,) = reply.observation.messages
    assert (message.role, message.content, message.tool_call_id) == ("tool", "225", "1")
    assert (reply.reward, reply.terminated, reply.truncated) == (0.0, False, False)
    assert (final.reward, final.terminated) == (1.0, True)
    assert final.info == {"success": True, "answer": 225}


@pytest.mark.parametrize("expression", ["1 / 0", "9 ** 9 ** 9", "import os", ""])
async def test_what_cannot_be_computed_is_told_to_the_model(expression: str) -> None:
    reply = await compute(await begin(), expression)

    assert reply.observation.messages[0].content.startswith("Error: ")
    assert not reply.terminated


@pytest.mark.parametrize(
    ("label", "text", "reward"),
    [
        (225, "225", 1.0),
        (225, "It is 225.00!", 1.0),
        ("225", "two numbers: 224, 225", 1.0),
        ("#### 1,225", "1225", 1.0),
        (2.5, "2.5", 1.0),
        (-4, "so: -4", 1.0),
        (1000001, "1000000", 0.0),
        (225, "225 or 226", 0.0),
        (225, "no idea", 0.0),
        (225, "", 0.0),
    ],
)
async def test_the_last_number_of_the_answer_counts(label: Any, text: str, reward: float) -> None:
    environment = await begin(label)

    result = await environment.step(Action(text))

    assert result.reward == reward
    assert result.info["success"] is bool(reward)


async def test_an_episode_without_an_answer_is_cut_and_not_rewarded() -> None:
    environment = await begin(max_turns=2)
    await compute(environment, "15 * 15")

    result = await environment.step(
        Action("225", tool_calls=(ToolCall("calculator", {"expression": "15 * 15"}),))
    )

    assert (result.reward, result.terminated, result.truncated) == (0.0, False, True)
    assert result.info == {"success": False, "answer": None}


async def test_there_are_five_turns_unless_the_configuration_says_otherwise() -> None:
    environment = await begin()

    cut = [(await compute(environment, "1")).truncated for _ in range(5)]

    assert cut == [False, False, False, False, True]


@pytest.mark.parametrize("label", [None, "none", True, float("nan"), [1]])
async def test_a_label_that_is_no_number_fails_the_reset(label: Any) -> None:
    with pytest.raises(EnvironmentFailure, match="task 't': the label must be a number"):
        await begin(label)


def test_a_wrong_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"env_specific_config\.max_turn: .*'max_turns'"):
        make_environment_factory("calculator", {"max_turn": 3})
