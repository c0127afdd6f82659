"""Which forms an environment may answer in, and what is said of the others."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from retrain.environment.replies import as_first_observation, as_step_result
from retrain.errors import EnvironmentFailure
from retrain.types import Message, Observation, StepResult, ToolCall

HELLO = Message("user", "hello")
OBSERVATION = Observation((HELLO,))


@pytest.mark.parametrize(
    "value",
    [
        OBSERVATION,
        "hello",
        HELLO,
        {"role": "user", "content": "hello"},
        [HELLO],
        ({"role": "user", "content": "hello"},),
        ("hello", {}),
        (OBSERVATION, {"level": 1}),
        ([{"role": "user", "content": "hello"}], {"level": 1}),
    ],
)
def test_a_first_observation_has_many_forms(value: Any) -> None:
    assert as_first_observation(value) == OBSERVATION


def test_a_pair_of_messages_is_not_an_observation_with_info() -> None:
    pair = (HELLO, {"role": "assistant", "content": "hi"})

    assert as_first_observation(pair).messages == (HELLO, Message("assistant", "hi"))


def test_chat_dictionaries_are_read_in_full() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    history = [
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "1", "name": "f"},
    ]

    assert as_first_observation(history).messages == (
        Message("assistant", "", "hm", (ToolCall("f", {"x": 1}, "1"),)),
        Message("tool", "2", tool_call_id="1", name="f"),
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "reset returned None; expected an Observation, text"),
        (3, "reset returned int 3"),
        (b"hello", "reset returned bytes"),
        ([], "reset returned no message"),
        ([3], "wrong message: expected a Message or a chat dictionary, got int"),
        ({"role": "human", "content": "x"}, "'human' is none of system, user, assistant, tool"),
        ({"role": "user", "contents": "x"}, "did you mean 'content'"),
        ({"content": "x"}, "wrong message: a message needs a 'role'"),
        ({"role": "user", "content": ["x"]}, "content must be text, got list"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "a tool call is"),
        (("hello", 1), "got str"),
        ({"role": "assistant", "tool_calls": "f()"}, "tool_calls must be a list, got str"),
        ({"role": "assistant", "reasoning": 1}, "reasoning must be text, got int"),
        ({"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}, "no JSON"),
        ({"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}, "an object"),
        (Message("user", 3), "content must be text"),  # type: ignore[arg-type]
    ],
)
def test_any_other_first_observation_is_refused(value: Any, said: str) -> None:
    with pytest.raises(EnvironmentFailure, match=said):
        as_first_observation(value)


@pytest.mark.parametrize(
    "value",
    [
        StepResult(OBSERVATION, 1.0),
        ("hello", 1, False, False, {}),
        (HELLO, True, False, False, None),
        ([HELLO], Fraction(1), np.bool_(False), np.bool_(False), {}),
        (OBSERVATION, np.float32(1), False, False, {}),
    ],
)
def test_a_step_result_has_many_forms(value: Any) -> None:
    result = as_step_result(value)

    assert result == StepResult(OBSERVATION, 1.0)
    assert type(result.reward) is float
    assert (type(result.terminated), type(result.truncated)) == (bool, bool)


def test_the_last_observation_may_be_none() -> None:
    assert as_step_result((None, 0.0, True, False, {})).observation == Observation()
    with pytest.raises(EnvironmentFailure, match="step returned None"):
        as_step_result((None, 0.0, False, False, {}))


def test_info_becomes_json_values() -> None:
    info = {"success": np.bool_(True), "score": np.float64(0.5), "at": (1, 2), "odd": object}

    result = as_step_result(StepResult(OBSERVATION, info=info))

    assert result.info["success"] is True
    assert result.info["at"] == [1, 2]
    assert type(result.info["score"]) is float
    assert type(result.info["odd"]) is str


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (("hello", 1.0, False, {}), r"tuple of 4 .*expected a StepResult or a tuple"),
        ("hello", r"str 'hello'; expected a StepResult"),
        (("hello", float("nan"), False, False, {}), "reward nan; expected a finite"),
        (("hello", float("inf"), False, False, {}), "reward inf"),
        (("hello", "1", False, False, {}), "'1' as reward; expected a number"),
        (("hello", 1.0, 0, False, {}), "int 0 as terminated; expected True or False"),
        (("hello", 1.0, False, None, {}), "None as truncated"),
        (("hello", False, 1.0, False, {}), r"float 1.0 as terminated.*in that order"),
        (("hello", 1.0, False, False, []), "as info; expected a mapping"),
        ((3, 1.0, False, False, {}), "step returned int 3"),
    ],
)
def test_any_other_step_result_is_refused(value: Any, said: str) -> None:
    with pytest.raises(EnvironmentFailure, match=said):
        as_step_result(value)
