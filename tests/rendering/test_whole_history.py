"""Whole conversations as prompts: what continues a stream, and what cannot be rendered so."""

from __future__ import annotations

import random
from typing import Any

import pytest

from retrain.errors import RenderingFailure
from retrain.rendering import DeltaRenderer
from retrain.rendering.continuation import continuation
from retrain.types import Action, Message, ToolCall

ASK = Message("user", "What is 2 + 2?")
END = "<|im_end|>"


@pytest.fixture(scope="module")
def qwen3(qwen: Any) -> DeltaRenderer:
    return DeltaRenderer(qwen("qwen3"), history="template")


def encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def odd(tokenizer: Any, text: str, rng: random.Random) -> list[int]:
    """Ids of a text that its tokenizer would not have chosen."""
    cuts = sorted(rng.sample(range(len(text) + 1), 3))
    bounds = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return [i for begin, end in bounds for i in encode(tokenizer, text[begin:end])]


def test_any_tokens_of_the_same_text_are_continued(qwen3: DeltaRenderer, qwen: Any) -> None:
    tokenizer = qwen("qwen3")
    differing = 0
    for number in range(200):
        rng = random.Random(number)
        text = "".join(rng.choices(("ab", " cde", "12", "\n", "é🙂", "it's", "  ", "漢字"), k=8))
        prompt = encode(tokenizer, f"<|im_start|>user\n{text}{END}\n<|im_start|>assistant\n")
        sampled = odd(tokenizer, text, rng)
        ended = [*prompt, *sampled, *encode(tokenizer, END)]
        rest = encode(tokenizer, f"\n<|im_start|>user\n{text}{END}\n<|im_start|>assistant\n")
        whole = [*prompt, *encode(tokenizer, text), *encode(tokenizer, END), *rest]
        assert qwen3.continuation(ended, whole) == rest
        cut = [*prompt, *sampled]
        assert qwen3.continuation(cut, whole) == [*encode(tokenizer, END), *rest]
        differing += sampled != encode(tokenizer, text)
    assert differing > 100


@pytest.mark.parametrize(
    ("stream", "whole"),
    [
        ("one<|im_end|>", "two<|im_end|>\nmore"),
        ("one<|im_end|>", "one <|im_end|>\nmore"),
        ("one<|im_end|>", "one<|endoftext|>\nmore"),
        ("one<|im_end|>", "one"),
        ("<think>hm</think>one<|im_end|>", "one<|im_end|>\nmore"),
        ("one", "ones<|im_end|>"),
        ("one<|im_end|>\n", "one<|im_end|>more<|im_end|>"),
    ],
)
def test_another_text_or_control_token_is_a_rewrite(
    qwen3: DeltaRenderer, qwen: Any, stream: str, whole: str
) -> None:
    tokenizer = qwen("qwen3")
    assert qwen3.continuation(encode(tokenizer, stream), encode(tokenizer, whole)) is None


def test_a_control_token_that_is_spelled_in_characters_is_another_one(
    qwen3: DeltaRenderer, qwen: Any
) -> None:
    tokenizer = qwen("qwen3")
    spelled = [*encode(tokenizer, "<|im_"), *encode(tokenizer, "end|>")]
    assert tokenizer.decode(spelled) == END
    assert qwen3.continuation(spelled, encode(tokenizer, f"{END}\nmore")) is None


def test_bytes_that_are_no_text_are_continued_by_themselves_only() -> None:
    texts = {1: "a", 2: "\ufffd", 3: "\ufffd", 9: "<end>"}

    def decode(ids: Any) -> str:
        return "".join(texts[i] for i in ids)

    assert continuation([1, 2, 9], [1, 2, 9, 1], {9}, decode) == [1]
    assert continuation([1, 2, 9], [1, 3, 9, 1], {9}, decode) is None


def test_a_role_marker_that_ended_the_turn_stands_once(marked: Any) -> None:
    tokenizer = marked("glm4moe")
    renderer = DeltaRenderer(tokenizer, history="template", stop_token_ids=_ids(tokenizer))
    prompt = renderer.first((ASK,))
    turn = renderer.turn((ASK,), Message("assistant", "four"))
    said = (ASK, renderer.message(renderer.parse(turn), turn), Message("user", "and 3 + 3?"))
    stream = [*prompt, *turn]
    more = renderer.continuation(stream, renderer.whole(said))
    assert tokenizer.decode(turn).endswith("<|user|>")
    assert more is not None and "<|user|>" not in tokenizer.decode(more)


def _ids(tokenizer: Any) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(text) for text in ("<|user|>", "<|observation|>")]


@pytest.mark.parametrize("template", ["qwen2_5", "qwen3", "qwen3_instruct_2507"])
def test_templates_whose_turns_are_read_as_written_pass(qwen: Any, template: str) -> None:
    report = DeltaRenderer(qwen(template), history="template").check_report
    assert set(report.values()) == {None}


@pytest.mark.parametrize(
    ("template", "kind", "fault"),
    [
        ("gptoss", "reply of user", "is not what is read in it"),
        ("cohere2", "reply of tool, with tools", "drops or changes the tool message"),
        ("gemma3", "reply of tool, with tools", "refuses these messages"),
        ("idefics3", "reply of user", "drops or changes the user message"),
        ("qwen3", "reply of tool, with tools", "is not what is read in it"),
    ],
)
def test_what_cannot_be_rendered_whole_is_refused(
    marked: Any, template: str, kind: str, fault: str
) -> None:
    format = "plain" if template == "qwen3" else "auto"
    renderer = DeltaRenderer(marked(template), history="template", tool_format=format)
    assert fault in str(renderer.check_report[kind])
    turn = Message("assistant", "Yes.")
    reply: tuple[Message, ...] = (Message("user", "Why?"),)
    tools: Any = ()
    if "tool" in kind:
        turn = Message("assistant", tool_calls=(ToolCall("lookup", {"word": "a"}),))
        reply = (Message("tool", "a word"),)
        tools = ({"type": "function", "function": {"name": "lookup", "parameters": {}}},)
    with pytest.raises(RenderingFailure):
        renderer.whole((ASK, turn, *reply), tools=tools)


def test_a_kind_that_passes_is_rendered_beside_one_that_is_refused(marked: Any) -> None:
    renderer = DeltaRenderer(marked("cohere2"), history="template")
    said = (ASK, Message("assistant", "Four."), Message("user", "Why?"))
    assert "Why?" in renderer.decode(renderer.whole(said))


def test_equal_messages_must_all_be_there(qwen: Any) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if loop.first or m.content != messages[loop.index0 - 1].content "
        "%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    renderer = DeltaRenderer(tokenizer)
    twice = (ASK, Message("assistant", "4"), Message("user", "Again."), Message("user", "Again."))
    with pytest.raises(RenderingFailure, match=r"drops or changes the user message 'Again\.'"):
        renderer.whole(twice)


def test_a_turn_with_an_unreadable_call_keeps_its_text(qwen3: DeltaRenderer, qwen: Any) -> None:
    text = "<think>\nhm\n</think>\n\nSee:\n<tool_call>\n{broken\n</tool_call>"
    ids = encode(qwen("qwen3"), text + END)
    message = qwen3.message(qwen3.parse(ids), ids)
    assert message == Message("assistant", "See:\n<tool_call>\n{broken\n</tool_call>", "hm")
    readable = Action("Four.", "hm")
    assert qwen3.message(readable, ids) == readable.message
