import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from retrain.errors import ConfigError, RenderingFailure
from retrain.rendering import DeltaRenderer, Renderer, load_renderer
from retrain.types import Action, Message, ToolCall

MakeTokenizer = Callable[[str], Any]


def test_the_stop_set_is_the_union_of_all_that_name_one(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    end, text_end = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert load_renderer(tokenizer).stop_token_ids == {end}
    one = load_renderer(tokenizer, generation_config_eos=text_end)
    several = load_renderer(tokenizer, generation_config_eos=[end, text_end], stop_token_ids=(7,))
    assert one.stop_token_ids == {end, text_end}
    assert several.stop_token_ids == {end, text_end, 7}
    assert several.terminators == ("<|im_end|>",)


def test_a_terminator_outside_the_stop_set_is_warned_of(
    qwen: MakeTokenizer, marked: MakeTokenizer
) -> None:
    tokenizer = qwen("qwen2_5")
    assert load_renderer(tokenizer).warnings == ()
    tokenizer.eos_token = "<|endoftext|>"
    (warning,) = load_renderer(tokenizer).warnings
    assert "'<|im_end|>', which is no stop token" in warning
    assert "rendering.stop_token_ids" in warning
    harmony = marked("gptoss")
    stops = harmony.convert_tokens_to_ids(["<|return|>", "<|call|>"])
    assert load_renderer(harmony, generation_config_eos=stops).warnings == ()


def test_no_chat_template_is_one_clear_error(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="no chat template: name an instruction-tuned model"):
        load_renderer(tokenizer)


def test_a_template_that_does_not_compile_is_refused_with_its_line(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = "{% for m in messages %}"
    with pytest.raises(ConfigError, match="chat template cannot be read"):
        load_renderer(tokenizer)


def test_padding_falls_back_to_eos_and_then_to_an_error(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    assert load_renderer(tokenizer).pad_token_id == tokenizer.pad_token_id
    tokenizer.pad_token = None
    assert load_renderer(tokenizer).pad_token_id == tokenizer.eos_token_id
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="no stop token is known"):
        load_renderer(tokenizer)
    with pytest.raises(ConfigError, match=r"set tokenizer\.pad_token"):
        load_renderer(tokenizer, generation_config_eos=5)


def test_an_unknown_tool_format_is_one_clear_error(qwen: MakeTokenizer) -> None:
    with pytest.raises(ConfigError, match=r"tool_format 'llama'.*'llama3'"):
        load_renderer(qwen("qwen2_5"), tool_format="llama")


@pytest.mark.parametrize(
    ("template", "tool_format"),
    [
        ("qwen2_5", "hermes"),
        ("qwen3", "hermes"),
        ("qwen3_vl", "hermes"),
        ("llama3_1", "llama3"),
        ("llama3_2", "llama3"),
        ("gemma3", "plain"),
        ("qwen3_5_think", "qwen3_coder"),
        ("glm4moe", "glm45"),
    ],
)
def test_auto_takes_the_parser_that_reads_what_the_template_writes(
    marked: MakeTokenizer, template: str, tool_format: str
) -> None:
    stops = marked(template).convert_tokens_to_ids(["<|im_end|>", "<|eot_id|>", "<end_of_turn>"])
    assert load_renderer(marked(template), stop_token_ids=stops).tool_format == tool_format


def test_a_renderer_is_what_the_protocol_asks_for(qwen: MakeTokenizer) -> None:
    renderer: Renderer = DeltaRenderer(qwen("qwen2_5"))
    assert renderer.decode([]) == ""
    assert renderer.parse([]) == Action()


def test_importing_rendering_loads_no_heavy_module() -> None:
    code = (
        "import sys, retrain.rendering; "
        "print([m for m in ('torch', 'transformers', 'jinja2', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("family", ["qwen", "llama"])
def test_a_turn_is_read_back_as_it_was_written(request: pytest.FixtureRequest, family: str) -> None:
    template = {"qwen": "qwen3", "llama": "llama3_1"}[family]
    tokenizer = request.getfixturevalue(family)(template)
    renderer = load_renderer(tokenizer)
    call = ToolCall("calculator", {"expression": "6*7", "options": {"round": None}})
    answer = Message("assistant", "It is 42.", "Easy." if family == "qwen" else "")
    ids = renderer.turn([Message("user", "6*7?")], answer)
    assert ids[-1] == tokenizer.eos_token_id
    assert renderer.parse(ids) == Action(answer.content, answer.reasoning)
    calling = renderer.turn([Message("user", "6*7?")], Message("assistant", tool_calls=(call,)))
    assert calling[-1] == tokenizer.eos_token_id
    assert renderer.parse(calling) == Action(tool_calls=(call,))


def test_a_turn_holds_what_the_generation_prompt_left_to_write(marked: MakeTokenizer) -> None:
    tokenizer = marked("qwen3_5_think")
    renderer = load_renderer(tokenizer, generation_config_eos=tokenizer.encode("<|im_end|>"))
    message = Message("assistant", "42.", "Six sevens.")
    ids = renderer.turn([Message("user", "6*7?")], message)
    assert renderer.decode(renderer.first([Message("user", "6*7?")])).endswith("<think>\n")
    assert renderer.decode(ids) == "Six sevens.\n</think>\n\n42.<|im_end|>"
    assert renderer.parse(ids) == Action("42.", "Six sevens.")


def test_a_harmony_turn_ends_with_the_token_that_the_model_samples(marked: MakeTokenizer) -> None:
    tokenizer = marked("gptoss")
    stops = tokenizer.convert_tokens_to_ids(["<|return|>", "<|call|>"])
    renderer = load_renderer(tokenizer, generation_config_eos=stops)
    ids = renderer.turn([Message("user", "6*7?")], Message("assistant", "42."))
    assert renderer.decode(ids) == "<|channel|>final<|message|>42.<|return|>"


def test_a_turn_that_no_prompt_leads_to_is_refused(marked: MakeTokenizer) -> None:
    renderer = load_renderer(marked("deepseek_r1_distill"))
    with pytest.raises(RenderingFailure, match="behind the prompt that it makes of the history"):
        renderer.turn([Message("user", "6*7?")], Message("assistant", "42."))
    with pytest.raises(RenderingFailure, match="an assistant message"):
        renderer.turn([Message("user", "6*7?")], Message("user", "42."))


def test_a_turn_that_would_merge_with_its_prompt_is_encoded_alone(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    renderer = load_renderer(tokenizer)
    ids = renderer.turn([Message("user", "6*7?")], Message("assistant", "\n\n42."))
    assert ids == tokenizer.encode("\n\n42.<|im_end|>")


def test_a_turn_without_an_end_is_refused(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    with pytest.raises(RenderingFailure, match="without a stop token"):
        load_renderer(tokenizer).turn([Message("user", "6*7?")], Message("assistant", "42."))


def test_a_turn_that_a_role_marker_ends_holds_that_marker(marked: MakeTokenizer) -> None:
    tokenizer = marked("glm4moe")
    stops = tokenizer.convert_tokens_to_ids(["<|user|>", "<|observation|>"])
    renderer = load_renderer(tokenizer, generation_config_eos=stops)
    history = [Message("user", "6*7?")]
    ids = renderer.turn(history, Message("assistant", "42."))
    assert renderer.decode(ids) == "\n<think></think>\n42.<|user|>"
    assert renderer.parse(ids) == Action("42.")
    call = Message("assistant", tool_calls=(ToolCall("calculator", {"expression": "6*7"}),))
    assert renderer.decode(renderer.turn(history, call)).endswith("</tool_call><|observation|>")
