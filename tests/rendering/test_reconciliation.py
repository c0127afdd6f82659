from collections.abc import Callable
from typing import Any

import pytest
from rendering_episodes import TOOLS

from retrain.rendering import load_renderer
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]
CALL = Action(tool_calls=(ToolCall("calculator", {"expression": "6*7"}),))
TALK = Action("I think so.")
RESULT = (Message("tool", "42"),)
WORD = (Message("user", "Go on."),)


def after(
    tokenizer: Any, action: Action, reply: tuple[Message, ...], last: str, stops: tuple[str, ...]
) -> str:
    """The text that a reply appends behind the last sampled token."""
    renderer = load_renderer(
        tokenizer, stop_token_ids=[tokenizer.convert_tokens_to_ids(stop) for stop in stops]
    )
    last_id = tokenizer.convert_tokens_to_ids(last)
    return renderer.decode(renderer.delta(action, reply, last_id, TOOLS))


CHATML = ("<|im_end|>", "<|endoftext|>")
GLM = ("<|endoftext|>", "<|user|>", "<|observation|>")
GEMMA4 = ("<turn|>", "<|tool_response>")
HARMONY = ("<|return|>", "<|call|>")


@pytest.mark.parametrize(
    ("template", "stops", "action", "reply", "last", "starts"),
    [
        ("qwen2_5", CHATML, TALK, WORD, "<|im_end|>", "\n<|im_start|>user\nGo on.<|im_end|>"),
        ("qwen2_5", CHATML, TALK, WORD, "<|endoftext|>", "\n<|im_start|>user\n"),
        ("qwen2_5", CHATML, TALK, WORD, "x", "<|im_end|>\n<|im_start|>user\n"),
        ("qwen2_5", CHATML, CALL, RESULT, "</tool_call>", "<|im_end|>\n<|im_start|>user\n<tool_"),
        ("qwen2_5", CHATML, CALL, WORD, "<|im_end|>", "\n<|im_start|>user\nGo on."),
        ("glm4moe", GLM, TALK, WORD, "<|user|>", "\nGo on.<|assistant|>"),
        ("glm4moe", GLM, CALL, RESULT, "<|observation|>", "\n<tool_response>\n42"),
        ("glm4moe", GLM, CALL, RESULT, "<|user|>", "<|observation|>\n<tool_response>\n42"),
        ("glm4moe", GLM, TALK, WORD, "<|observation|>", "<|user|>\nGo on."),
        ("glm4moe", GLM, TALK, WORD, "<|endoftext|>", "<|user|>\nGo on."),
        ("glm4moe", GLM, CALL, RESULT, "x", "<|observation|>\n<tool_response>\n42"),
        ("glm4moe_training", GLM, CALL, RESULT, "<|endoftext|>", "<|observation|>\n<tool_resp"),
        ("gemma4", GEMMA4, CALL, RESULT, "<|tool_response>", "response:calculator{value:"),
        ("gemma4", GEMMA4, CALL, RESULT, "<turn|>", "<|tool_response>response:calculator"),
        ("gemma4", GEMMA4, TALK, WORD, "<turn|>", "\n<|turn>user\nGo on.<turn|>"),
        ("gemma4", GEMMA4, TALK, WORD, "<|tool_response>", "<turn|>\n<|turn>user\nGo on."),
        ("gptoss", HARMONY, TALK, WORD, "<|return|>", "<|start|>user<|message|>Go on."),
        ("gptoss", HARMONY, TALK, WORD, "<|end|>", "<|start|>user<|message|>Go on."),
        ("gptoss", HARMONY, CALL, RESULT, "<|call|>", "<|start|>functions.calculator to=assi"),
        ("gptoss", HARMONY, CALL, RESULT, "x", "<|call|><|start|>functions.calculator to=assi"),
    ],
)
def test_the_sampled_stop_and_the_terminator_become_one(
    marked: MakeTokenizer,
    template: str,
    stops: tuple[str, ...],
    action: Action,
    reply: tuple[Message, ...],
    last: str,
    starts: str,
) -> None:
    assert after(marked(template), action, reply, last, stops).startswith(starts)


def test_llama_keeps_its_other_stop_token(llama: MakeTokenizer) -> None:
    text = after(llama("llama3_1"), CALL, RESULT, "<|eom_id|>", ("<|eom_id|>",))
    assert text.startswith('<|start_header_id|>ipython<|end_header_id|>\n\n"42"<|eot_id|>')


def test_no_marker_stands_twice_in_a_stream(marked: MakeTokenizer) -> None:
    tokenizer = marked("glm4moe")
    stops = [tokenizer.convert_tokens_to_ids(stop) for stop in GLM]
    renderer = load_renderer(tokenizer, stop_token_ids=stops, tool_format="plain")
    history = [Message("user", "What is 6 times 7?")]
    turn = Message("assistant", tool_calls=CALL.tool_calls)
    sampled = renderer.turn(history, turn, TOOLS)
    ids = renderer.first(history, TOOLS) + sampled
    ids += renderer.delta(CALL, RESULT, sampled[-1], TOOLS)
    text = renderer.decode(ids)
    assert text.count("<|observation|>") == 1
    assert "</tool_call><|observation|>\n<tool_response>\n42" in text


def test_a_result_is_named_after_the_call_that_it_answers(marked: MakeTokenizer) -> None:
    calls = (ToolCall("calculator", {"expression": "6*7"}, "b"), ToolCall("clock", {}, "a"))
    results = (Message("tool", "noon", tool_call_id="a"), Message("tool", "42", tool_call_id="b"))
    text = after(marked("gemma4"), Action(tool_calls=calls), results, "<|tool_response>", GEMMA4)
    assert text.index("response:clock{") < text.index("noon") < text.index("response:calculator{")
