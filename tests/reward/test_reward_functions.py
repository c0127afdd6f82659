"""The built-in reward functions, over episodes and over turns."""

from __future__ import annotations

from typing import Any

import pytest
from reward_episodes import make_episode

from retrain.reward import REWARDS, STEP_REWARDS, VERIFIERS
from retrain.sample import Status
from retrain.types import Action, ToolCall

CALL = Action(tool_calls=(ToolCall("add"), ToolCall("sub")))


@pytest.mark.parametrize("registry", [REWARDS, STEP_REWARDS], ids=["rollout", "step"])
@pytest.mark.parametrize(
    ("name", "label", "text", "params", "expected"),
    [
        ("exact_match", "Paris", " Paris\n", {}, 1.0),
        ("exact_match", "Paris", "paris", {}, 0.0),
        ("exact_match", "Paris", "paris", {"ignore_case": True}, 1.0),
        ("exact_match", 4, "4", {}, 1.0),
        ("substring_match", "Paris", "It is Paris.", {}, 1.0),
        ("substring_match", "Paris", "It is PARIS.", {}, 0.0),
        ("substring_match", "Paris", "It is PARIS.", {"ignore_case": True}, 1.0),
        ("substring_match", "Paris", "It is Rome.", {"substring": "Rome"}, 1.0),
        ("substring_match", None, "It is Rome.", {"substring": "Rome"}, 1.0),
        ("numeric_match", "#### 1,225", "so 1225.0", {}, 1.0),
        ("numeric_match", 1225, "1225 or 7", {}, 0.0),
        ("numeric_match", 3.14159, "3.14", {"tolerance": 0.01}, 1.0),
        ("numeric_match", 3.14159, "3.14", {}, 0.0),
        ("numeric_match", 4, "four", {}, 0.0),
        ("format_compliance", None, "a\nb", {"pattern": "^a.b$"}, 1.0),
        ("format_compliance", None, "xab", {"pattern": "^a.*b$"}, 0.0),
        ("format_compliance", None, "<t>x</t><a>y</a>", {"tags": ["t", "a"]}, 1.0),
        ("format_compliance", None, "<a>y</a><t>x</t>", {"tags": ["t", "a"]}, 0.0),
        ("format_compliance", None, "<t>x</t><t>x</t>", {"tags": ["t"]}, 0.0),
        ("format_compliance", None, "</t>x<t>", {"tags": ["t"]}, 0.0),
        ("format_compliance", None, "<t>x</t>", {"tags": ["t"], "pattern": "y"}, 0.0),
        ("tool_use", None, CALL, {}, 1.0),
        ("tool_use", None, "no", {}, 0.0),
        ("tool_use", None, CALL, {"tools": ["mul"]}, 0.0),
        ("tool_use", None, CALL, {"tools": ["add"], "at_most": 1}, 1.0),
        ("tool_use", None, CALL, {"at_least": 3}, 0.0),
        ("tool_use", None, CALL, {"at_most": 1}, 0.0),
        ("tool_use", None, "no", {"at_least": 0, "at_most": 0}, 1.0),
    ],
)
def test_a_rule_gives_one_or_zero(
    registry: Any,
    name: str,
    label: Any,
    text: Any,
    params: dict[str, Any],
    expected: float,
) -> None:
    trajectory = make_episode(text, label=label)
    turn = () if registry is REWARDS else (trajectory.turns[0],)

    assert registry.get(name)(*turn, trajectory, **params) == expected


@pytest.mark.parametrize(
    ("name", "label", "params", "said"),
    [
        ("exact_match", None, {}, "no label"),
        ("substring_match", None, {}, "no label"),
        ("substring_match", " ", {}, "not empty"),
        ("numeric_match", "none", {}, "a label with a number, got 'none'"),
        ("numeric_match", None, {}, "got None"),
        ("format_compliance", None, {}, "`pattern` or `tags`"),
        ("format_compliance", None, {"pattern": "("}, "no regular expression"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_an_error_and_not_zero(
    name: str, label: Any, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        REWARDS.get(name)(make_episode("text", label=label), **params)


def test_an_episodes_response_is_its_last_action() -> None:
    trajectory = make_episode("Paris", "Rome", label="Paris")

    assert REWARDS.get("substring_match")(trajectory) == 0.0
    per_turn = [STEP_REWARDS.get("substring_match")(t, trajectory) for t in trajectory.turns]
    assert per_turn == [1.0, 0.0]


def test_tool_calls_of_all_turns_count_for_an_episode() -> None:
    assert REWARDS.get("tool_use")(make_episode(CALL, CALL, "done"), at_least=4) == 1.0


def test_verifiers_say_what_they_are_named_after() -> None:
    plain = make_episode("x", status=Status.TRUNCATED)
    used = make_episode(CALL, Action(parse_error="bad"))
    verdicts = {
        name: (VERIFIERS.get(name)(plain), VERIFIERS.get(name)(used))
        for name in ("completed", "used_tool", "no_parse_error")
    }

    assert verdicts == {
        "completed": (False, True),
        "used_tool": (False, True),
        "no_parse_error": (True, False),
    }


def test_the_built_in_names_are_listed() -> None:
    names = {"exact_match", "substring_match", "numeric_match", "format_compliance", "tool_use"}

    assert names <= set(REWARDS.names())
    assert names <= set(STEP_REWARDS.names())
