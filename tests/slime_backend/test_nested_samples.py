"""Episodes of one and of several segments beside one another, as slime flattens and reads them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.nesting import evenly_nested, gives_segments
from retrain.config import RunConfig
from retrain.reward.advantages import group_advantages

SPLITTING = {"environment": {"type": "splitting_world:Splitting"}}
MESSAGE = {"role": "user", "content": "And 2+2?"}


def flattened(data: list[Any]) -> list[Any]:
    """As slime does it: by the look of the first item (`_get_rollout_data` of slime 0.3.1)."""
    while isinstance(data[0], list):
        data = list(itertools.chain.from_iterable(data))
    return data


def test_a_rollout_of_both_kinds_is_flattened_to_samples(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config(sections=SPLITTING))
    groups = plugin.generate_rollout(args, 0, plugin.DataSource(args)).samples
    lengths = {len(item) for group in groups for item in group}
    assert lengths == {1, 2}, "the world rewrites in some episodes only"
    samples = flattened(groups)
    assert not any(isinstance(sample, list) for sample in samples)
    raw, advantages = plugin.reward_post_process(args, samples)
    assert len(raw) == len(advantages) == len(samples)
    for group in groups:
        votes = [item[0].reward for item in group]
        expected = group_advantages("grpo", votes)
        for item, value in zip(group, expected, strict=True):
            own = [advantages[samples.index(sample)] for sample in item]
            assert own == pytest.approx([value] * len(item)), "one vote, and each segment has it"


def test_every_generated_item_is_a_list_where_one_may_be(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config(sections=SPLITTING))
    drawn = plugin.DataSource(args).get_samples(2)
    items = [asyncio.run(plugin.generate(args, s, {})) for group in drawn for s in group]
    assert {len(item) for item in items} == {1, 2}
    over = asyncio.run(plugin.generate(args, items[0][0], {}))
    assert over == [items[0][0]], "also one that is over already"


def test_samples_stay_plain_where_nothing_splits(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    assert not context_of(args).segmented
    groups = plugin.generate_rollout(args, 0, plugin.DataSource(args)).samples
    assert not any(isinstance(item, list) for group in groups for item in group)
    assert evenly_nested([["a", ["b", "c"]], ["d"]]) == [[["a"], ["b", "c"]], [["d"]]]


def test_demonstrations_that_the_template_splits_are_lists(
    slime_config: Any, slime_args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [{"role": "assistant", "content": "2"}, MESSAGE, {"role": "assistant", "content": "4"}]
    long = {"id": "long", "messages": [{"role": "user", "content": "1+1?"}, *turns]}
    short = {"id": "short", "messages": [{"role": "user", "content": "1+1?"}, turns[0]]}
    document = slime_config(rows=[long, short]).model_dump(mode="json")
    hyper = {"num_iterations": 2, "global_batch_size": 2}
    document["algorithm"] = {"name": "sft", "backend": "slime", "hyperparameters": hyper}
    document["rendering"]["history"] = "template"
    config = RunConfig.model_validate(document)
    args = slime_args(config, rollout_batch_size=2, n_samples_per_prompt=1)
    renderer = context_of(args).composition.renderer
    monkeypatch.setattr(renderer, "continuation", lambda stream, whole: None)
    samples = flattened(plugin.sft_rollout(args, 0, plugin.DataSource(args)).samples)
    assert len(samples) == 3
    assert all(sample.rollout_log_probs is None and any(sample.loss_mask) for sample in samples)
    assert len({sample.rollout_id for sample in samples}) == 2


@pytest.mark.parametrize(
    ("sections", "giver"),
    [
        ({}, None),
        ({"rendering": {"history": "template"}}, "rendering.history: template"),
        (SPLITTING, "an environment that rewrites its history (splitting_world:Splitting)"),
    ],
)
def test_what_gives_segments_is_told(slime_config: Any, sections: Any, giver: str | None) -> None:
    assert gives_segments(slime_config(sections=sections)) == giver
