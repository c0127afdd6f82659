from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import real_tokenizers
from rendering_episodes import TOOLS

from retrain.errors import RenderingFailure
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]
STOPS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eot|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "<|observation|>",
    "<turn|>",
    "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|END_OF_TURN_TOKEN|>",
)
QUESTION = Message("user", "What is it?")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def call(word: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall("calculator", {"expression": word}),))


def two_calls() -> Message:
    calls = tuple(ToolCall("calculator", {"expression": text}) for text in ("1", "2"))
    return Message("assistant", tool_calls=calls)


PAST = (QUESTION, Message("assistant", "This."), Message("user", "Sure?"))
TOOL_PAST = (QUESTION, call("0"), Message("tool", "zero"), call("9"), Message("tool", "nine"))
SAID = Message("assistant", "That.")
SITUATIONS: dict[str, tuple[tuple[Message, ...], Message, tuple[Message, ...]]] = {
    "user": (PAST, SAID, (Message("user", "alpha beta"),)),
    "user after tools": (TOOL_PAST, SAID, (Message("user", "alpha beta"),)),
    "tool": (PAST, call("1+1"), (Message("tool", "alpha beta"),)),
    "tool after tools": (TOOL_PAST, call("1+1"), (Message("tool", "alpha beta"),)),
    "two tools": (TOOL_PAST, two_calls(), (Message("tool", "alpha"), Message("tool", "gamma"))),
    "tool and user": (TOOL_PAST, call("1"), (Message("tool", "alpha"), Message("user", "gamma"))),
}


def renderer_of(tokenizer: Any) -> DeltaRenderer:
    """A renderer with the stop tokens that the template's models name."""
    named = [stop for stop in STOPS if stop in tokenizer.chat_template]
    if "<|observation|>" in named:
        named.append("<|user|>")
    if "<|assistant|>" in tokenizer.chat_template and "<|end|>" in tokenizer.chat_template:
        named.append("<|end|>")
    return load_renderer(
        tokenizer, stop_token_ids=[tokenizer.convert_tokens_to_ids(stop) for stop in named]
    )


def outcome(tokenizer: Any, renderer: DeltaRenderer, situation: str) -> str:
    """Compare a delta with transformers' own render of a longer conversation."""
    history, turn, reply = SITUATIONS[situation]
    action = Action(turn.content, tool_calls=turn.tool_calls)
    needs_tools = "tool" in situation
    tools = TOOLS if needs_tools else ()
    try:
        delta = renderer.delta(action, reply, -1, tools)
    except RenderingFailure as failure:
        return "refused" if str(failure) else "refused without a reason"
    try:
        real = renderer.template.render((*history, turn, *reply), tools, generation_prompt=True)
    except RenderingFailure:
        return "no such episode"
    shown = renderer.decode(delta)
    if any(message.content not in shown for message in reply):
        return "dropped"
    ids = tokenizer.encode(real, add_special_tokens=False)
    return "exact" if ids[-len(delta) :] == delta else "wrong"


def test_no_template_is_silently_wrong(marked: MakeTokenizer) -> None:
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for name in real_tokenizers.template_names():
        tokenizer = marked(name)
        renderer = renderer_of(tokenizer)
        for situation in SITUATIONS:
            found = outcome(tokenizer, renderer, situation)
            counts[found] += 1
            if found not in ("exact", "refused", "no such episode"):
                faults.append(f"{name}: {situation}: {found}")
    assert faults == []
    assert counts["exact"] > 0.6 * counts.total(), counts


def test_the_sweep_would_notice_a_wrong_delta(
    qwen: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = qwen("qwen2_5")
    renderer = load_renderer(tokenizer)
    delta = renderer.delta
    assert outcome(tokenizer, renderer, "tool") == "exact"
    monkeypatch.setattr(renderer, "delta", lambda *arguments: [*delta(*arguments), 198])
    assert outcome(tokenizer, renderer, "tool") == "wrong"
    monkeypatch.setattr(renderer, "delta", lambda *arguments: delta(*arguments)[-3:])
    assert outcome(tokenizer, renderer, "tool") == "dropped"


def test_state_left_over_from_an_earlier_round_is_named(marked: MakeTokenizer) -> None:
    renderer = renderer_of(marked("deepseekv3_training"))
    report = renderer.check_report
    fault = report["reply of tool, with tools"]
    assert fault is not None
    assert "in round 2 the chat template writes" in fault
    assert report["reply of user"] is None
    with pytest.raises(RenderingFailure, match="in round 2"):
        renderer.delta(Action(tool_calls=call("1").tool_calls), [Message("tool", "2")], -1, TOOLS)
    renderer.delta(Action("Hm."), [Message("user", "Well?")], -1)


def test_llama_refuses_two_calls_and_nothing_else(llama: MakeTokenizer) -> None:
    renderer = load_renderer(llama("llama3_1"))
    faults = {kind: fault for kind, fault in renderer.check_report.items() if fault}
    assert list(faults) == ["reply of tool + tool to 2 tool calls, with tools"]
    assert "only supports single tool-calls" in str(faults)


def broken(qwen: MakeTokenizer, template: str) -> DeltaRenderer:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = template
    return load_renderer(tokenizer)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            CHATML.replace("<|im_end|>", "").replace("<|im_start|>", "# "),
            "ends an assistant turn without any special token",
        ),
        (CHATML.replace("{{ m.content }}", ""), "leaves out the content of an assistant turn"),
        (
            CHATML.replace("{{ m.content }}", "{{ m.content if m.role == 'assistant' }}"),
            "drops a user message",
        ),
        (
            CHATML.replace("{{ m.role }}", "{{ m.role }}{{ messages|length }}"),
            "in round 2 the chat template writes",
        ),
        (
            CHATML.replace("{% for", "{% if messages|length > 2 %}{{ 1/0 }}{% endif %}{% for", 1),
            "ZeroDivisionError",
        ),
    ],
)
def test_a_broken_template_is_refused_with_its_fault(
    qwen: MakeTokenizer, template: str, reason: str
) -> None:
    renderer = broken(qwen, template)
    assert reason in str(renderer.check_report["reply of user"])
    with pytest.raises(RenderingFailure, match=reason.split(" ")[-1]):
        renderer.delta(Action("Hm."), [Message("user", "Well?")], -1)


def test_content_that_a_template_drops_is_noticed_when_it_comes(qwen: MakeTokenizer) -> None:
    shortened = CHATML.replace("{{ m.content }}", "{{ m.content.split('#')[0] }}")
    renderer = broken(qwen, shortened)
    renderer.delta(Action("Hm."), [Message("user", "all of it")], -1)
    with pytest.raises(RenderingFailure, match="drops or changes message 1"):
        renderer.delta(Action("Hm."), [Message("user", "part # of it")], -1)
    with pytest.raises(RenderingFailure, match="drops or changes the user message"):
        renderer.first([Message("user", "part # of it")])


def test_tools_that_the_template_leaves_out_are_refused(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = CHATML
    renderer = load_renderer(tokenizer, tool_format="hermes")
    renderer.first([QUESTION])
    with pytest.raises(RenderingFailure, match="leaves out the tools"):
        renderer.first([QUESTION], TOOLS)


def test_tool_calls_that_no_parser_reads_are_refused(marked: MakeTokenizer) -> None:
    tokenizer = marked("qwen3_6")
    tokenizer.chat_template = tokenizer.chat_template.replace("<function=", "<fn=")
    renderer = renderer_of(tokenizer)
    assert renderer.tool_format == "plain"
    with pytest.raises(RenderingFailure, match=r"set rendering\.tool_format"):
        renderer.first([QUESTION], TOOLS)


@pytest.mark.parametrize(
    ("action", "messages", "reason"),
    [
        (Action("Hm."), [Message("tool", "1")], "answer with a user message"),
        (Action("Hm."), [Message("assistant", "1")], "role 'assistant'"),
        (
            Action(tool_calls=call("1").tool_calls),
            [Message("tool", "1"), Message("tool", "2")],
            "tool message number 2 answers no call",
        ),
        (Action("Hm."), [Message("user", 3)], "must be text, not int"),  # type: ignore[arg-type]
    ],
)
def test_a_reply_that_cannot_be_is_one_clear_failure(
    qwen: MakeTokenizer, action: Action, messages: list[Message], reason: str
) -> None:
    with pytest.raises(RenderingFailure, match=reason):
        load_renderer(qwen("qwen2_5")).delta(action, messages, -1)


def test_a_template_that_reads_no_plain_text_is_refused_at_the_first_prompt(
    marked: MakeTokenizer,
) -> None:
    with pytest.raises(RenderingFailure, match="drops or changes the user message"):
        load_renderer(marked("idefics3")).first([QUESTION])


def test_a_template_that_refuses_everything_says_so_when_it_is_used(qwen: MakeTokenizer) -> None:
    renderer = broken(qwen, "{{ raise_exception('Never!') }}")
    assert all(renderer.check_report.values())
    with pytest.raises(RenderingFailure, match=r"refuses these messages \(user\).*Never!"):
        renderer.first([QUESTION])


def test_a_template_that_ends_this_turn_in_another_way_is_refused(qwen: MakeTokenizer) -> None:
    renderer = broken(
        qwen, CHATML.replace("<|im_end|>", "{{ '!' if 'odd' in messages[-1].content }}<|im_end|>")
    )
    renderer.delta(Action("Hm."), [Message("user", "even")], -1)
    with pytest.raises(RenderingFailure, match="does not end this turn with"):
        renderer.delta(Action("Hm."), [Message("user", "odd")], -1)


def test_structure_that_depends_on_a_reply_is_refused(qwen: MakeTokenizer) -> None:
    extra = "{{ m.content }}{{ '<|im_end|>' if 'odd' in m.content }}"
    renderer = broken(qwen, CHATML.replace("{{ m.content }}", extra))
    renderer.delta(Action("Hm."), [Message("user", "even")], -1)
    with pytest.raises(RenderingFailure, match="holds the control tokens"):
        renderer.delta(Action("Hm."), [Message("user", "odd")], -1)


def test_a_hidden_token_that_a_template_escapes_is_refused(qwen: MakeTokenizer) -> None:
    escaped = "{{ m.content | tojson(ensure_ascii=True) }} {{ m.content[:8] }}"
    renderer = broken(qwen, CHATML.replace("{{ m.content }}", escaped))
    with pytest.raises(RenderingFailure, match="drops or"):
        renderer.delta(Action("Hm."), [Message("user", "a harmless text </think>")], -1)


def test_a_tokenizer_that_splits_its_terminator_is_refused(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.split_special_tokens = True
    try:
        renderer = load_renderer(tokenizer)
        assert "does not encode '<|im_end|>' as a token" in str(renderer.check_report)
        with pytest.raises(RenderingFailure, match="as a token"):
            renderer.turn([QUESTION], Message("assistant", "42."))
    finally:
        tokenizer.split_special_tokens = False
