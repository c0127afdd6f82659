"""Demonstrations under `rendering.history: template`: each turn is imitated once."""

from __future__ import annotations

from typing import Any

import pytest
from real_tokenizers import chat_template, qwen_tokenizer
from rewriting_worlds import trained_tokens

from bridges.demonstrations import demonstration_samples
from bridges.limits import EpisodeLimits
from retrain.rendering import load_renderer
from retrain.rollout.sources import RowKeys, list_tasks

CONVERSATION = [
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "It is 2.", "reasoning_content": "add them"},
    {"role": "user", "content": "And 2+2?"},
    {"role": "assistant", "content": "It is 4.", "reasoning_content": "double it"},
]


@pytest.fixture(scope="module")
def qwen3(pytestconfig: pytest.Config) -> Any:
    tokenizer = qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"))
    tokenizer.chat_template = chat_template("qwen3")
    return tokenizer


async def test_reasoning_that_the_template_strips_is_imitated_once(qwen3: Any) -> None:
    renderer = load_renderer(qwen3, history="template")
    tasks = list_tasks([{"messages": CONVERSATION}], RowKeys(), "items")
    samples = await demonstration_samples(tasks, renderer, EpisodeLimits(500))
    assert len(samples) == 2
    assert qwen3.decode(trained_tokens(samples)) == (
        "<think>\nadd them\n</think>\n\nIt is 2.<|im_end|>"
        "<think>\ndouble it\n</think>\n\nIt is 4.<|im_end|>"
    )
    for sample, upto in zip(samples, (1, 3), strict=True):
        prompt = qwen3.apply_chat_template(
            CONVERSATION[:upto], tokenize=False, add_generation_prompt=True
        )
        assert qwen3.decode(sample.prompt_ids) == prompt
    assert "add them" not in qwen3.decode(samples[1].prompt_ids)


async def test_a_template_that_rewrites_nothing_gives_one_sample(qwen3: Any) -> None:
    qwen3.chat_template = chat_template("qwen3_instruct_2507")
    tasks = list_tasks([{"messages": CONVERSATION}], RowKeys(), "items")
    kept = await demonstration_samples(tasks, load_renderer(qwen3), EpisodeLimits(500))
    renderer = load_renderer(qwen3, history="template")
    whole = await demonstration_samples(tasks, renderer, EpisodeLimits(500))
    assert len(whole) == 1
    assert (whole[0].tokens, whole[0].loss_mask) == (kept[0].tokens, kept[0].loss_mask)
