"""`sft_rollout`: recorded conversations with the tokens and masks that TRL trains on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from bridges.demonstrations import demonstration_samples
from retrain.compose import make_buffer, make_tasks
from retrain.errors import DataError

ROWS = [
    {
        "id": f"d{n}",
        "messages": [
            {"role": "user", "content": f"question {n}"},
            {"role": "assistant", "content": "first answer"},
            {"role": "user", "content": "go on"},
            {"role": "assistant", "content": f"answer {n}"},
        ],
    }
    for n in range(3)
]


@pytest.fixture
def config(slime_config: Any) -> Any:
    """An sft run; only the keys that mean something to it."""
    full = slime_config(rows=ROWS)
    content = full.model_dump(mode="json")
    content["algorithm"] = {
        "name": "sft",
        "backend": "slime",
        "hyperparameters": {"num_iterations": 2, "global_batch_size": 2},
    }
    return type(full).model_validate(content)


def test_samples_are_the_demonstrations_of_the_bridges(config: Any, slime_args: Any) -> None:
    args = slime_args(config, rollout_batch_size=2, n_samples_per_prompt=1)
    source = plugin.DataSource(args)
    groups = plugin.sft_rollout(args, 0, source).samples
    context = context_of(args)
    composition = context.composition
    assert [len(group) for group in groups] == [1, 1]
    for (sample,) in groups:
        task = context.tasks[sample.metadata["retrain_request"]["task"]]
        limits = composition.environment.limits
        call = demonstration_samples([task], composition.renderer, limits)
        (expected,) = asyncio.run(call)
        assert sample.tokens == expected.tokens
        assert sample.loss_mask == expected.loss_mask
        assert sample.response_length == expected.response_length
        assert 0 < sum(sample.loss_mask) < sample.response_length
        assert sample.rollout_log_probs is None, "nobody sampled them"
        assert sample.reward == 1.0
    assert plugin.log_rollout(0, args, [group[0] for group in groups], {}, 1.0) is False
    source.save(0)
    assert (config.output_dir / "state" / "data-0.json").exists()


def test_demonstrations_come_in_the_order_of_the_data_buffer_as_on_trl(
    config: Any, slime_args: Any
) -> None:
    args = slime_args(config, rollout_batch_size=2, n_samples_per_prompt=1)
    source = plugin.DataSource(args)
    drawn = []
    for rollout in range(3):
        for (sample,) in plugin.sft_rollout(args, rollout, source).samples:
            drawn.append(sample.metadata["retrain_request"]["task"])
    buffer = make_buffer(config, make_tasks(config))
    assert drawn == [request.task.id for request in buffer.draw(2 * len(ROWS))]


def test_row_without_a_conversation_is_named(config: Any, slime_args: Any) -> None:
    content = config.model_dump(mode="json")
    content["prompt_source"]["source_config"]["items"] = [{"id": "row", "prompt": "q"}]
    wrong = type(config).model_validate(content)
    args = slime_args(wrong, rollout_batch_size=1, n_samples_per_prompt=1)
    with pytest.raises(DataError, match="demonstration 'row': has no 'messages'"):
        plugin.sft_rollout(args, 0, plugin.DataSource(args))
