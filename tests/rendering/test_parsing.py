import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import ConfigError
from retrain.rendering.parsing import (
    PARSERS,
    parse_hermes,
    parse_llama3,
    parse_plain,
    parser_named,
    register_parser,
)
from retrain.types import Action, ToolCall


def hermes(name: str, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_hermes_reads_text_reasoning_and_several_calls() -> None:
    text = (
        "<think>\nFirst add.\n</think>\n\nLet me see.\n"
        + hermes("add", {"a": [1, {"b": None}]})
        + "\n"
        + hermes("mul", {})
    )
    assert parse_hermes(text) == Action(
        "Let me see.",
        "First add.",
        (ToolCall("add", {"a": [1, {"b": None}]}), ToolCall("mul", {})),
    )


def test_hermes_reads_a_call_whose_string_holds_the_closing_tag() -> None:
    call = hermes("say", {"text": "</tool_call> and <tool_call>"})
    assert parse_hermes(call).tool_calls == (
        ToolCall("say", {"text": "</tool_call> and <tool_call>"}),
    )


def test_hermes_keeps_text_behind_and_between_calls() -> None:
    action = parse_hermes(f"one {hermes('a', {})} two {hermes('b', {})} three")
    assert action.text == "one\ntwo\nthree"
    assert [call.name for call in action.tool_calls] == ["a", "b"]
    assert action.parse_error is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"name": "add", "arguments": {"a": 1', "not valid JSON"),
        ('{"name": "add", "arguments": {"a": 1}}', "no </tool_call>"),
        ("{'name': 'add'}</tool_call>", "not valid JSON"),
        ("</tool_call>", "not valid JSON"),
        ('["add"]</tool_call>', "expected a JSON object, found an array"),
        ('{"arguments": {}}</tool_call>', 'needs a "name"'),
        ('{"name": 3}</tool_call>', 'needs a "name"'),
        ('{"name": "add", "arguments": "{}"}</tool_call>', "must be an object, found a string"),
        ('{"name": "add", "arguments": null}</tool_call>', "must be an object, found null"),
        ('{"name": "add", "arguments": {"a": NaN}}</tool_call>', "NaN is no JSON value"),
        ('{"name": "add", "arguments": {"a": "\\ud800"}}</tool_call>', "surrogates"),
        ("[" * 100_000 + "</tool_call>", "nested too deeply"),
        ("1" * 5000 + "</tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "add"}</tool_call>', "not valid JSON"),
    ],
)
def test_hermes_says_why_a_call_cannot_be_read(body: str, reason: str) -> None:
    action = parse_hermes("<tool_call>" + body)
    assert action.tool_calls == ()
    assert action.parse_error is not None
    assert action.parse_error.startswith("tool call 1: ")
    assert reason in action.parse_error


def test_hermes_reads_on_behind_a_broken_call() -> None:
    action = parse_hermes("<tool_call>oops</tool_call>" + hermes("add", {"a": 1}))
    assert action.tool_calls == (ToolCall("add", {"a": 1}),)
    assert action.parse_error is not None
    assert "tool call 1" in action.parse_error


def test_a_call_in_reasoning_is_no_call() -> None:
    action = parse_hermes(f"<think>maybe {hermes('add', {})}</think>No.")
    assert action == Action("No.", f"maybe {hermes('add', {})}")


def test_a_call_in_unfinished_reasoning_is_an_error() -> None:
    action = parse_hermes("<think>hm " + hermes("add", {}))
    assert action.tool_calls == ()
    assert action.parse_error is not None
    assert "never ends" in action.parse_error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Just text.", Action("Just text.")),
        ("why</think>\nText", Action("Text", "why")),
        ("<think>\n\n</think>\n\nText", Action("Text")),
        ("<think>cut off", Action("", "cut off")),
        ("I write <think> in </think> prose.", Action("I write <think> in </think> prose.")),
        ("", Action()),
    ],
)
def test_plain_splits_reasoning_off_text(text: str, expected: Action) -> None:
    assert parse_plain(text) == expected
    assert parse_hermes(text) == expected


@pytest.mark.parametrize("prefix", ["", "<|python_tag|>"])
def test_llama3_reads_calls_with_and_without_the_tag(prefix: str) -> None:
    first = '{"name": "add", "parameters": {"a": {"b": 1}}}'
    second = '{"name": "mul", "parameters": {}}'
    assert parse_llama3(prefix + first).tool_calls == (ToolCall("add", {"a": {"b": 1}}),)
    both = parse_llama3(f"{prefix}{first}; {second} trailing")
    assert [call.name for call in both.tool_calls] == ["add", "mul"]
    assert both.text == "trailing"
    assert both.parse_error is None


@pytest.mark.parametrize(
    "text", ["Plain.", '{"answer": 3}', '{"name": "Bob", "age": 3}', '{"type": "circle"}', "{x}"]
)
def test_llama3_leaves_what_is_no_call(text: str) -> None:
    assert parse_llama3(text) == Action(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "add", "parameters": {"a": 1', "not valid JSON"),
        ('{"name": "add", "parameters": [1]}', "must be an object, found an array"),
        ('{"type": "function", "parameters": {}}', 'needs a "name"'),
        ("<|python_tag|>print(1)", "not valid JSON"),
        ("<|python_tag|>", "no tool call"),
        ('{"name": "a", "parameters": {}}; {"name": ', "tool call 2: not valid JSON"),
    ],
)
def test_llama3_says_why_a_call_cannot_be_read(text: str, reason: str) -> None:
    error = parse_llama3(text).parse_error
    assert error is not None
    assert reason in error


PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<|python_tag|>",
        '{"name": "a", "arguments": {}}',
        '{"name": "a", "parameters": {}}',
        "{",
        "}",
        '"',
        ";",
        "\n",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parser in PARSERS.values():
        assert isinstance(parser(text), Action)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"tool_format 'hermse'.*'hermes'"):
        parser_named("hermse")


def test_a_registered_parser_is_found_and_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PARSERS, "shout", raising=False)
    register_parser("shout", lambda text: Action(text.upper()))
    try:
        assert parser_named("shout")("a") == Action("A")
        with pytest.raises(ConfigError, match="taken"):
            register_parser("shout", parse_plain)
    finally:
        del PARSERS["shout"]
