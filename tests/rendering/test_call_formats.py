"""What a template writes of a turn is read back: text, reasoning and calls, in every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import is_normalized

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rendering_episodes import WORDS
from test_self_check import renderer_of

from retrain.environment import Tool
from retrain.rendering.parsing import PARSERS, parser_named
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]
TEMPLATES = {
    "qwen3": "hermes",
    "qwen3_6": "qwen3_coder",
    "nemotron_3_nano": "qwen3_coder",
    "glm4moe": "glm45",
    "gemma4_v5": "gemma4",
    "lfm2_v2": "lfm2",
    "gptoss": "harmony",
    "muse_glimmer": "muse",
}
"""A template of each format, and of each way to write it."""

UNTYPED = ("qwen3_coder", "glm45", "muse")
WITHOUT_REASONING = ("lfm2_v2",)
ONE_CALL = ("gptoss",)
NO_TEXT_BESIDE_CALLS = ("gptoss", "muse_glimmer")
QUESTION = Message("user", "What is it?")


def find(word: str, count: int = 1, exact: bool = False, tags: list[str] | None = None) -> str:
    """Find a word.

    Args:
        word: The word.
        count: How often.
        exact: Whether case counts.
        tags: Where to look.
    """
    return json.dumps([word, count, exact, tags])


FIND = Tool(find)
PLAIN = WORDS.filter(
    lambda text: is_normalized("NFC", text) and not any(mark in text for mark in '<>"\\|\0')
)
"""Composed, as tokenizers may write it, and without what Python source, one format, cannot hold."""
ARGUMENTS = st.fixed_dictionaries(
    {"word": PLAIN},
    optional={
        "count": st.integers(-99, 99),
        "exact": st.booleans(),
        "tags": st.none() | st.lists(PLAIN, max_size=3),
    },
)


@st.composite
def turns(draw: st.DrawFn, template: str) -> Message:
    calls = draw(st.lists(ARGUMENTS, max_size=1 if template in ONE_CALL else 3))
    spoken = not calls or (template not in NO_TEXT_BESIDE_CALLS and draw(st.booleans()))
    reasoning = "" if template in WITHOUT_REASONING else draw(st.just("") | PLAIN)
    return Message(
        "assistant",
        draw(PLAIN) if spoken else "",
        reasoning or ("Hm." if template == "nemotron_3_nano" else ""),
        tuple(ToolCall("find", given) for given in calls),
    )


@pytest.mark.parametrize("template", TEMPLATES)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_turn_is_read_back_as_it_was(
    marked: MakeTokenizer, template: str, data: st.DataObject
) -> None:
    renderer = _renderer(marked, template)
    assert renderer.tool_format == TEMPLATES[template]
    message = data.draw(turns(template))
    action = renderer.parse(renderer.turn((QUESTION,), message, (FIND.schema,)))

    assert action.parse_error is None
    assert (action.text, action.reasoning) == (message.content, message.reasoning)
    assert [call.name for call in action.tool_calls] == ["find"] * len(message.tool_calls)
    for read, written in zip(action.tool_calls, message.tool_calls, strict=True):
        assert read.arguments == _as_written(written.arguments, renderer.tool_format)


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_tool_is_called_with_values_of_its_types(
    marked: MakeTokenizer, template: str
) -> None:
    renderer = _renderer(marked, template)
    given = {"word": "7", "count": 3, "exact": True, "tags": ["a b", "c"]}
    message = Message("assistant", "", "Hm.", (ToolCall("find", given),))
    action = renderer.parse(renderer.turn((QUESTION,), message, (FIND.schema,)))
    answer = await FIND.run(action.tool_calls[0].arguments)
    assert json.loads(answer) == ["7", 3, True, ["a b", "c"]]


def _renderer(marked: MakeTokenizer, template: str) -> Any:
    if template not in _RENDERERS:
        _RENDERERS[template] = renderer_of(marked(template))
    return _RENDERERS[template]


_RENDERERS: dict[str, Any] = {}


def _as_written(arguments: Mapping[str, Any], tool_format: str) -> Mapping[str, Any]:
    if tool_format not in UNTYPED:
        return arguments
    return {
        name: value if isinstance(value, str) else _text(value) for name, value in arguments.items()
    }


def _text(value: Any) -> Any:
    """A value as templates of untyped formats write it; two of them write Python's `True`."""
    return _Either(json.dumps(value, ensure_ascii=False), str(value))


class _Either(str):
    """Equal to either of two texts."""

    def __new__(cls, first: str, second: str) -> _Either:
        made = super().__new__(cls, first)
        made.second = second
        return made

    def __eq__(self, other: object) -> bool:
        return str(self) == other or self.second == other

    __hash__ = str.__hash__


CODER = "<tool_call>\n<function=f>\n{}\n</function>\n</tool_call>"
UNREADABLE = [
    ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n1", "no </tool_call>"),
    ("qwen3_coder", "<tool_call>f(1)</tool_call>", "expected <function=NAME>"),
    ("qwen3_coder", CODER.format("a=1"), "expected <parameter=NAME>"),
    ("qwen3_coder", CODER.format("<parameter=a>\n1\n</parameter>" * 2), "stands there twice"),
    ("qwen3_coder", CODER.format("<parameter=>\n1\n</parameter>"), "has no name"),
    ("qwen3_coder", "<think>\n<tool_call>", "never ends"),
    ("glm45", "<tool_call>f\n<arg_key>a</arg_key>", "no </tool_call>"),
    ("glm45", "<tool_call>f\n<arg_key>a</arg_key></tool_call>", "<arg_value>"),
    ("glm45", "<tool_call>\n</tool_call>", "expected the tool's name"),
    ("glm45", "<tool_call>what is it</tool_call>", "expected the tool's name"),
    ("gemma4", "<|tool_call>call:f{a:1", "no <tool_call|>"),
    ("gemma4", "<|tool_call>f{}<tool_call|>", "expected call:NAME"),
    ("gemma4", "<|tool_call>call:f{a:word}<tool_call|>", "is no value"),
    ("gemma4", "<|tool_call>call:f{a:1e999}<tool_call|>", "is no value"),
    ("gemma4", "<|tool_call>call:f{a:007}<tool_call|>", "is no value"),
    ("gemma4", '<|tool_call>call:f{a:<|"|>b}<tool_call|>', "at its end"),
    ("gemma4", "<|tool_call>call:f{a:" + "[" * 9999 + "}<tool_call|>", "nested too deeply"),
    ("gemma4", "<|tool_call>call:f{} and<tool_call|>", "text behind"),
    ("gemma4", "<|tool_call>call:f{a:1 b:2}<tool_call|>", "expected ','"),
    ("lfm2", "<|tool_call_start|>[f(a=1)]", "no <|tool_call_end|>"),
    ("lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>", "by name"),
    ("lfm2", "<|tool_call_start|>[f(a=b)]<|tool_call_end|>", "a is no plain value"),
    ("lfm2", "<|tool_call_start|>[f(a={1: 2, b})]<|tool_call_end|>", "not valid Python"),
    ("lfm2", "<|tool_call_start|>[f(a=1e999)]<|tool_call_end|>", "a is no plain value"),
    ("lfm2", "<|tool_call_start|>[f(a='\\ud800')]<|tool_call_end|>", "a is no plain value"),
    ("lfm2", "<|tool_call_start|>[f(a=" + "(" * 9999 + ")]<|tool_call_end|>", "not valid Python"),
    ("lfm2", "<|tool_call_start|>[]<|tool_call_end|>", "an empty one"),
    ("lfm2", "<|tool_call_start|>[f(**a)]<|tool_call_end|>", "by name"),
    ("lfm2", "<|tool_call_start|>[f()()]<|tool_call_end|>", "expected calls"),
    ("harmony", " to=functions.f<|channel|>commentary json<|message|>{", "not valid JSON"),
    ("harmony", "<|channel|>commentary to=functions.f<|message|>{} x", "text behind"),
    ("harmony", " to=functions.f<|channel|>comm", "breaks off"),
    ("muse", " to=f<|message|>{}", "expected <atem:function_calls>"),
    ("muse", " to=f<|message|><atem:function_calls>x</atem:function_calls>", "expected <atem:inv"),
]


@pytest.mark.parametrize(("name", "text", "reason"), UNREADABLE)
def test_a_call_that_cannot_be_read_says_why(name: str, text: str, reason: str) -> None:
    action = parser_named(name)(text)
    assert action.tool_calls == ()
    assert reason in str(action.parse_error)
    assert str(action.parse_error).startswith(("tool call 1: ", "the tool call stands"))


@pytest.mark.parametrize("name", sorted({*PARSERS} - {"plain"}))
@pytest.mark.parametrize("text", ["It is 42.", "a < b, to=5", "", "f(a=1)"])
def test_text_is_no_call(name: str, text: str) -> None:
    assert parser_named(name)(text) == Action(text)


def test_channels_are_kept_apart() -> None:
    read = parser_named("harmony")
    turn = "<|channel|>analysis<|message|>Six sevens.<|end|><|start|>assistant<|channel|>final"
    assert read(turn + "<|message|>42.") == Action("42.", "Six sevens.")
    assert read(turn) == Action("", "Six sevens.")
    assert read("<|channel|>analysis<|message|>Six sev") == Action("", "Six sev")
    call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    assert read(f'{call}{{"a": 1}}').tool_calls == (ToolCall("f", {"a": 1}),)


def test_good_calls_are_kept_beside_a_broken_one() -> None:
    good = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
    action = parser_named("glm45")(f"one {good} two <tool_call></tool_call>{good} three")
    assert action.tool_calls == (ToolCall("f", {"a": "1"}),) * 2
    assert action.text == "one\ntwo\nthree"
    assert str(action.parse_error).startswith("tool call 2: ")
