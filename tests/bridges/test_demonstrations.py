"""Recorded conversations become samples by the loop that makes rollouts."""

from __future__ import annotations

from typing import Any

import pytest

from bridges.demonstrations import demonstration_samples
from bridges.limits import EpisodeLimits
from retrain.errors import DataError
from retrain.rollout.sources import RowKeys, list_tasks
from retrain.types import Task

CALL = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": "1+1"}}}
CONVERSATION = [
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "calculator", "content": "2"},
    {"role": "assistant", "content": "It is 2."},
]
LIMITS = EpisodeLimits(max_response_len=200)


def tasks(*conversations: Any) -> tuple[Task, ...]:
    return list_tasks([{"messages": c} for c in conversations], RowKeys(), "items")


async def test_tokens_are_the_template_s_and_the_mask_is_the_assistant_s(
    renderer: Any, tokenizer: Any
) -> None:
    (sample,) = await demonstration_samples(tasks(CONVERSATION), renderer, LIMITS)
    whole = tokenizer.apply_chat_template(CONVERSATION, tokenize=False)
    assert tokenizer.decode(sample.tokens) + "\n" == whole
    trained = [t for t, mask in zip(sample.response_ids, sample.loss_mask, strict=True) if mask]
    text = tokenizer.decode(trained)
    assert text.startswith("<tool_call>")
    assert text.endswith("It is 2.<|im_end|>")
    assert "tool_response" not in text
    assert text.count("<|im_end|>") == 2


async def test_tools_stand_in_the_prompt(renderer: Any, tokenizer: Any) -> None:
    tool = {
        "type": "function",
        "function": {"name": "calculator", "description": "adds", "parameters": {}},
    }
    (sample,) = await demonstration_samples(tasks(CONVERSATION), renderer, LIMITS, [tool])
    assert '"name": "calculator"' in tokenizer.decode(sample.prompt_ids)


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        (CONVERSATION[:3], "must end with an assistant message"),
        ([*CONVERSATION[:3], {"role": "assistant", "content": "2 " * 300}], "does not fit"),
    ],
)
async def test_unusable_demonstration_is_named(
    renderer: Any, conversation: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        await demonstration_samples(tasks(conversation), renderer, LIMITS)
    assert "demonstration '0'" in str(caught.value)


async def test_rows_without_conversation_are_named(renderer: Any) -> None:
    with pytest.raises(DataError, match="has no 'messages'; sft needs"):
        await demonstration_samples([Task("a", "hi")], renderer, LIMITS)


def named(*names: str) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "description": "", "parameters": {}}}
        for name in names
    ]


async def test_a_row_lists_the_tools_that_it_chooses(renderer: Any, tokenizer: Any) -> None:
    rows = [{"messages": CONVERSATION, "tools": chosen} for chosen in (None, ["calculator"], [])]
    chosen = list_tasks(rows, RowKeys(), "items")
    offered = named("search", "calculator")
    samples = await demonstration_samples(chosen, renderer, LIMITS, offered)
    prompts = [tokenizer.decode(sample.prompt_ids) for sample in samples]
    assert ['"search"' in prompt for prompt in prompts] == [True, False, False]
    assert ['"calculator"' in prompt for prompt in prompts] == [True, True, False]


async def test_a_row_that_chooses_a_tool_that_there_is_not_is_named(renderer: Any) -> None:
    rows = [{"messages": CONVERSATION, "tools": ["calculater"]}]
    with pytest.raises(DataError, match=r"demonstration '0'.*did you mean 'calculator'"):
        await demonstration_samples(
            list_tasks(rows, RowKeys(), "items"), renderer, LIMITS, named("calculator")
        )
    without = list_tasks([{"messages": CONVERSATION, "tools": [{"a": 1}]}], RowKeys(), "items")
    assert await demonstration_samples(without, renderer, LIMITS)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": CONVERSATION, "images": [__file__]},
        {"messages": [{**CONVERSATION[0], "images": [__file__]}, *CONVERSATION[1:]]},
    ],
)
async def test_a_row_that_shows_images_is_named_and_not_trained_blind(
    renderer: Any, row: dict[str, Any]
) -> None:
    rows = list_tasks([{"messages": CONVERSATION}, row], RowKeys(), "items")
    with pytest.raises(DataError, match="demonstration '1': shows images, and sft trains on text"):
        await demonstration_samples(rows, renderer, LIMITS)
