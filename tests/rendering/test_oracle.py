"""Comparison with the `renderers` package, an independent implementation of the same formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import real_tokenizers
from renderers.configs import Llama3RendererConfig, Qwen3RendererConfig
from renderers.llama_3 import Llama3Renderer
from renderers.qwen3 import Qwen3Renderer
from rendering_episodes import TOOLS
from test_self_check import renderer_of

from retrain.rendering import load_renderer
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6*7"}}\n</tool_call>'
QWEN_TURNS = [
    "It is 42.",
    "  spaces around \n",
    "<think>\nSix sevens.\n</think>\n\nIt is 42.",
    CALL,
    f"Let me see.\n{CALL}",
    f"<think>\nhm\n</think>\n\nLet me see.\n{CALL}\n{CALL}",
    "<think>\nstill think",
    '<tool_call>\n{"name": "f", "arguments": {"a": {"b": [1, {"c": null}]}}}\n</tool_call>',
    '<tool_call>{"name": "f"}</tool_call>',
    "<tool_call>\nnot json\n</tool_call>",
    '<tool_call>\n{"arguments": {}}\n</tool_call>',
    f"{CALL}\n<tool_call>\noops\n</tool_call>",
    '<tool_call>\n{"name": "f", "argu',
    "<tool_call>\n[1, 2]\n</tool_call>",
    "",
]
LLAMA_TURNS = [
    "It is 42.",
    '{"name": "calculator", "parameters": {"expression": "6*7"}}',
    '{"name": "f", "parameters": {"a": {"b": [1, {"c": null}]}}}',
    '{"answer": 42}',
    "{not json}",
    "",
]


@pytest.mark.parametrize("text", QWEN_TURNS)
def test_hermes_calls_are_read_as_the_oracle_reads_them(qwen: MakeTokenizer, text: str) -> None:
    tokenizer = qwen("qwen3")
    _compare(tokenizer, Qwen3Renderer(tokenizer, Qwen3RendererConfig()), text + "<|im_end|>")


@pytest.mark.parametrize("text", LLAMA_TURNS)
def test_llama_calls_are_read_as_the_oracle_reads_them(llama: MakeTokenizer, text: str) -> None:
    tokenizer = llama("llama3_1")
    _compare(tokenizer, Llama3Renderer(tokenizer, Llama3RendererConfig()), text + "<|eot_id|>")


def _compare(tokenizer: Any, oracle: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    action, expected = load_renderer(tokenizer).parse(ids), oracle.parse_response(ids)
    good = [call for call in expected.tool_calls if call.status == "ok"]
    assert [(call.name, call.arguments) for call in action.tool_calls] == [
        (call.name, call.arguments) for call in good
    ]
    assert (action.parse_error is None) == (len(good) == len(expected.tool_calls))
    assert action.text == expected.content.strip()
    assert action.reasoning == (expected.reasoning_content or "").strip()


REPLIES = [
    [Message("tool", "42")],
    [Message("tool", "42"), Message("tool", '{"a": "b"}\n')],
    [Message("tool", "")],
]


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("stop", ["<|im_end|>", ""])
def test_qwen3_replies_are_appended_as_the_oracle_appends_them(
    qwen: MakeTokenizer, reply: list[Message], stop: str
) -> None:
    tokenizer = qwen("qwen3")
    oracle = Qwen3Renderer(tokenizer, Qwen3RendererConfig())
    renderer = load_renderer(tokenizer)
    calls = tuple(ToolCall("calculator", {"expression": "6*7"}) for _ in reply)
    prompt = renderer.first([Message("user", "6*7?")], TOOLS)
    sampled = tokenizer.encode("\n".join([CALL] * len(reply)) + stop, add_special_tokens=False)
    dicts: list[Any] = [{"role": "tool", "content": message.content} for message in reply]
    expected = oracle.bridge_to_next_turn(prompt, sampled, dicts, tools=list(TOOLS))
    assert expected is not None
    delta = renderer.delta(Action(tool_calls=calls), reply, sampled[-1], TOOLS)
    assert [*prompt, *sampled, *delta] == list(expected.token_ids)


def test_prompts_are_written_as_the_oracle_writes_them(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen3")
    oracle = Qwen3Renderer(tokenizer, Qwen3RendererConfig())
    messages = [Message("system", "Be brief."), Message("user", "6*7?")]
    dicts: list[Any] = [{"role": m.role, "content": m.content} for m in messages]
    for tools in ((), TOOLS):
        expected = oracle.render_ids(dicts, tools=list(tools) or None, add_generation_prompt=True)
        assert load_renderer(tokenizer).first(messages, tools) == list(expected)


OTHERS = {
    "qwen3_6": "qwen36:Qwen36Renderer",
    "nemotron_3_nano": "nemotron3:Nemotron3Renderer",
    "glm4moe": "glm45:GLM45Renderer",
    "gemma4_v5": "gemma4:Gemma4Renderer",
}
GEMMA_MARKERS = ["<eos>", "<|image>", "<image|>", "<|image|>", "<|audio>", "<audio|>", "<|audio|>"]
CALLED = (ToolCall("calculator", {"expression": "6*7", "steps": [1, {"deep": None}]}),)
MESSAGES = [
    Message("assistant", "It is 42.", "Six sevens."),
    Message("assistant", "", "Six sevens.", CALLED),
    Message("assistant", "It is 42.", "Six\nsevens."),
]


@pytest.mark.parametrize("template", OTHERS)
@pytest.mark.parametrize("message", MESSAGES)
def test_other_formats_are_read_as_the_oracle_reads_them(
    marked: MakeTokenizer, template: str, message: Message
) -> None:
    tokenizer = marked(template)
    real_tokenizers.with_markers(tokenizer, GEMMA_MARKERS)
    module, _, name = OTHERS[template].partition(":")
    oracle = getattr(import_module(f"renderers.{module}"), name)(tokenizer)
    renderer = renderer_of(tokenizer)
    ids = renderer.turn([Message("user", "6*7?")], message, TOOLS)
    prefix = tokenizer.encode(renderer._reader.prefix, add_special_tokens=False)
    action, expected = renderer.parse(ids), oracle.parse_response([*prefix, *ids])

    assert action.text == expected.content.strip() == message.content
    assert action.reasoning == (expected.reasoning_content or "").strip() == message.reasoning
    assert [call.name for call in action.tool_calls] == [c.name for c in expected.tool_calls]
    for read, other in zip(action.tool_calls, expected.tool_calls, strict=True):
        assert {k: _value(v) for k, v in read.arguments.items()} == {
            k: _value(v) for k, v in other.arguments.items()
        }


def _value(value: Any) -> Any:
    """What a text holds, where a format writes all values as text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
