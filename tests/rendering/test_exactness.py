import datetime
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rendering_episodes import TOOLS, WORDS, Round, rounds

from retrain.rendering import DeltaRenderer, load_renderer
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]
QUESTION = Message("user", "What is 6 times 7?")
CALL = Action(tool_calls=(ToolCall("calculator", {"expression": "6*7"}),))
RESULT = (Message("tool", "42"),)
relaxed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def stream(
    renderer: DeltaRenderer, first: Sequence[Message], episode: Sequence[Round]
) -> list[int]:
    """What an engine would see: the prompt, and per round the turn and the reply's delta."""
    ids = renderer.first(first, TOOLS)
    history = list(first)
    for part in episode:
        turn = renderer.turn(history, part.turn, TOOLS)
        assert renderer.parse(turn).tool_calls == part.turn.tool_calls
        ids += turn + renderer.delta(part.action, part.reply, turn[-1], TOOLS)
        history += [part.turn, *part.reply]
    return ids


def rendered(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """What transformers itself makes of the whole conversation."""
    dicts: list[dict[str, Any]] = []
    for message in messages:
        entry: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            entry["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": dict(c.arguments)}}
                for c in message.tool_calls
            ]
        dicts.append(entry)
    text = tokenizer.apply_chat_template(
        dicts, tools=[dict(tool) for tool in TOOLS], tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


@relaxed
@given(system=st.just("") | WORDS, question=WORDS, episode=rounds(max_calls=3))
@pytest.mark.parametrize("template", ["qwen2_5", "qwen3_instruct_2507"])
def test_qwen_streams_equal_the_template(
    qwen: MakeTokenizer, template: str, system: str, question: str, episode: list[Round]
) -> None:
    _compare(qwen(template), system, question, episode)


@relaxed
@given(system=st.just("") | WORDS, question=WORDS, episode=rounds(max_calls=1))
def test_llama_streams_equal_the_template(
    llama: MakeTokenizer, system: str, question: str, episode: list[Round]
) -> None:
    # Llama 3.1 leaves out the content of a turn that holds a call, so such a turn has none here.
    quiet = [
        Round(Message("assistant", tool_calls=part.turn.tool_calls), part.reply)
        if part.turn.tool_calls
        else part
        for part in episode
    ]
    _compare(llama("llama3_1"), system, question, quiet)


def _compare(tokenizer: Any, system: str, question: str, episode: list[Round]) -> None:
    first = [Message("system", system)] if system else []
    first.append(Message("user", question))
    whole = [*first, *(message for part in episode for message in (part.turn, *part.reply))]
    assert stream(load_renderer(tokenizer), first, episode) == rendered(tokenizer, whole)


@pytest.mark.parametrize(
    ("family", "template"), [("qwen", "qwen2_5"), ("qwen", "qwen3"), ("llama", "llama3_1")]
)
@pytest.mark.parametrize("reply", [RESULT, (*RESULT, Message("user", "Is it?"))])
def test_a_delta_is_the_end_of_the_real_render(
    request: pytest.FixtureRequest, family: str, template: str, reply: tuple[Message, ...]
) -> None:
    tokenizer = request.getfixturevalue(family)(template)
    renderer = load_renderer(tokenizer)
    stop = tokenizer.eos_token_id
    turn = Message("assistant", tool_calls=CALL.tool_calls)
    real = rendered(tokenizer, (QUESTION, turn, *reply))
    delta = renderer.delta(CALL, reply, stop, TOOLS)
    assert real[-len(delta) - 1 :] == [stop, *delta]


def test_qwen3_keeps_reasoning_that_its_template_would_drop(qwen: MakeTokenizer) -> None:
    renderer = load_renderer(qwen("qwen3"))
    turn = Message("assistant", "42.", "Six sevens.")
    ids = stream(renderer, [QUESTION], [Round(turn, (Message("user", "And twice?"),))])
    text = renderer.decode(ids)
    assert "<think>\nSix sevens.\n</think>\n\n42.<|im_end|>\n<|im_start|>user\nAnd twice?" in text
    assert text.endswith("<|im_start|>assistant\n")


def test_the_work_of_a_reply_does_not_grow_with_the_episode(
    qwen: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = qwen("qwen2_5")
    renderer = load_renderer(tokenizer)
    characters: list[int] = []
    render, encode = tokenizer.apply_chat_template, tokenizer.encode

    def counted_render(*args: Any, **options: Any) -> str:
        text = render(*args, **options)
        characters.append(len(text))
        return str(text)

    def counted_encode(text: str, **options: Any) -> list[int]:
        characters.append(len(text))
        return list(encode(text, **options))

    monkeypatch.setattr(tokenizer, "apply_chat_template", counted_render)
    monkeypatch.setattr(tokenizer, "encode", counted_encode)
    per_turn: list[int] = []
    ids = renderer.first([QUESTION], TOOLS)
    for _ in range(100):
        characters.clear()
        ids += renderer.delta(CALL, RESULT, tokenizer.eos_token_id, TOOLS)
        per_turn.append(sum(characters))
    assert 0 < per_turn[1] == per_turn[99]


def test_the_date_is_pinned(llama: MakeTokenizer) -> None:
    day = datetime.date(2031, 2, 3)
    renderer = load_renderer(llama("llama3_2"), date=day)
    assert renderer.template.date == day
    assert "Today Date: 03 Feb 2031\n" in renderer.decode(renderer.first([QUESTION]))


def test_a_date_of_another_form_is_pinned_too(marked: MakeTokenizer) -> None:
    renderer = load_renderer(marked("gptoss"), date=datetime.date(2031, 2, 3))
    assert "Current date: 2031-02-03\n" in renderer.decode(renderer.first([QUESTION]))


def test_template_options_reach_the_template_and_the_parser(qwen: MakeTokenizer) -> None:
    renderer = load_renderer(qwen("qwen3"), template_options={"enable_thinking": False})
    assert renderer.decode(renderer.first([QUESTION])).endswith("<think>\n\n</think>\n\n")
    assert renderer.parse(renderer.turn([QUESTION], Message("assistant", "42."))) == Action("42.")
