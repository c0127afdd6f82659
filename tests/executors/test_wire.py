from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import EnvironmentFailure, ToolFailure
from retrain.rollout.executors.faults import describe_fault, rebuild_fault
from retrain.rollout.executors.wire import decode, encode, plain, read
from retrain.types import Action, Message, Observation, StepResult, Task, ToolCall

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
CALLS = st.builds(ToolCall, TEXT, OBJECTS, st.none() | TEXT)
MESSAGES = st.builds(
    Message,
    role=TEXT,
    content=TEXT,
    reasoning=TEXT,
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    tool_call_id=st.none() | TEXT,
    name=st.none() | TEXT,
)
THREAD = st.lists(MESSAGES, max_size=3).map(tuple)
TASKS = st.builds(
    Task, TEXT, TEXT | THREAD, JSON, OBJECTS, images=st.lists(TEXT, max_size=2).map(tuple)
)
ACTIONS = st.builds(
    Action, TEXT, TEXT, st.lists(CALLS, max_size=2).map(tuple), st.none() | TEXT, st.booleans()
)
RESULTS = st.builds(
    StepResult,
    st.builds(Observation, THREAD, st.booleans()),
    st.floats(allow_nan=False),
    st.booleans(),
    st.booleans(),
    OBJECTS,
)


@given(st.one_of(TASKS, ACTIONS, RESULTS))
def test_what_crosses_comes_back_as_it_was(value: Any) -> None:
    sent = encode({"value": plain(value, "value")})
    assert repr(read(type(value), decode(sent)["value"])) == repr(value)


def test_not_a_number_crosses() -> None:
    assert math.isnan(decode(encode({"x": plain(float("nan"), "x")}))["x"])


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"ok": 1, "seen": {1, 2}}, r"step.info\['seen'\]: is a set, which cannot cross"),
        ({"a": [0, {"b": object()}]}, r"step.info\['a'\]\[1\]\['b'\]: is a object"),
        ({"rows": {7: "x"}}, r"step.info\['rows'\]: has the key 7; only text keys"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(info: Any, message: str) -> None:
    with pytest.raises(EnvironmentFailure, match=message):
        plain(StepResult(Observation(), info=info), "step")


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(EnvironmentFailure, match="nested more than 100 deep, or holds itself"):
        plain(loop, "info")


def test_a_failure_keeps_its_boundary_its_message_and_where_it_arose() -> None:
    class OwnFailure(ToolFailure):
        pass

    failure = rebuild_fault(describe_fault(OwnFailure("tool search: down")), "process 7")
    assert type(failure) is ToolFailure
    assert str(failure) == "tool search: down"
    assert failure.__notes__[0].startswith("In process 7:\n")
    assert "OwnFailure" in failure.__notes__[0]
