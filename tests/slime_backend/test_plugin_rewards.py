"""`reward`, `reward_post_process` and the filters: one vote per episode, by explicit group."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.framework import framework
from backends.slime.samples import flat
from retrain.errors import ConfigError
from retrain.reward.advantages import group_advantages


def sample(
    group: int, rollout: int | None, reward: Any, *, status: str = "COMPLETED", **fields: Any
) -> Any:
    make = framework().sample
    return make(
        group_index=group,
        index=rollout,
        rollout_id=rollout,
        reward=reward,
        tokens=[1, 2, 3],
        response_length=2,
        loss_mask=[1, 1],
        status=make.Status[status],
        **fields,
    )


def processed(samples: Sequence[Any], args: Any = None) -> list[float]:
    raw, values = plugin.reward_post_process(args, samples)
    assert len(raw) == len(values) == len(samples)
    return values


def test_uneven_groups_are_normalised_each_by_itself() -> None:
    """slime alone makes one group of such a batch: 1,1,0,1,1 -> .45,.45,-1.79,.45,.45."""
    batch = [sample(0, 0, 1.0), sample(0, 1, 1.0), sample(0, 2, 0.0)]
    batch += [sample(1, 3, 1.0), sample(1, 4, 1.0)]
    values = processed(batch)
    assert values == pytest.approx([0.57735, 0.57735, -1.1547, 0.0, 0.0], abs=1e-4)
    assert values[:3] == list(group_advantages("grpo", [1.0, 1.0, 0.0]))


def test_interleaved_groups_are_told_apart_by_their_index() -> None:
    values = processed([sample(7, 0, 1.0), sample(3, 1, 5.0), sample(7, 2, 0.0), sample(3, 3, 5.0)])
    assert values == pytest.approx([0.70710, 0.0, -0.70710, 0.0], abs=1e-4)


def test_an_episode_of_many_samples_votes_once() -> None:
    batch = [sample(0, 0, 1.0), *(sample(0, 1, 0.0) for _ in range(3)), sample(0, 2, 1.0)]
    good, bad = group_advantages("grpo", [1.0, 0.0, 1.0])[:2]
    assert processed(batch) == [good, bad, bad, bad, good]


@pytest.mark.parametrize(
    "out",
    [
        sample(0, 9, 100.0, remove_sample=True),
        sample(0, 9, 100.0, status="FAILED"),
        sample(0, 9, None, status="ABORTED"),
    ],
)
def test_what_does_not_count_leaves_the_statistics(out: Any) -> None:
    values = processed([sample(0, 0, 1.0), copy.deepcopy(out), sample(0, 1, 0.0)])
    good, bad = group_advantages("grpo", [1.0, 0.0])
    assert values == [good, 0.0, bad]


def test_raw_rewards_are_given_unchanged() -> None:
    raw, _ = plugin.reward_post_process(None, [sample(0, 0, 0.3), sample(0, 1, 2.0)])
    assert raw == [0.3, 2.0]


def test_reward_key_chooses_from_mappings(slime_config: Any, slime_args: Any) -> None:
    batch = [sample(0, n, {"score": float(n), "other": 9.0}) for n in range(2)]
    args = slime_args(slime_config(), reward_key="score")
    assert plugin.reward_post_process(args, batch)[0] == [0.0, 1.0]
    args.reward_key = "scores"
    with pytest.raises(ConfigError, match="--reward-key must name one of them, and is 'scores'"):
        plugin.reward_post_process(args, batch)


def test_advantages_are_the_configured_ones(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config(name="dr_grpo"))
    assert processed([sample(0, 0, 1.0), sample(0, 1, 0.0)], args) == [0.5, -0.5]


def test_advantages_are_those_that_the_bridges_compute(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    values = processed(list(flat(output.samples)), args)
    rewards = [[s.reward for s in group] for group in output.samples]
    assert values == [value for group in rewards for value in group_advantages("grpo", group)]
    assert any(values)


def played(args: Any) -> list[Any]:
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    return list(output.samples[0])


def test_rewards_that_generate_gave_are_kept(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    group = played(args)
    group[0].reward = 123.0
    assert asyncio.run(plugin.reward(args, group[0])) == 123.0
    assert asyncio.run(plugin.reward(args, group)) == [s.reward for s in group]


def test_episode_is_scored_again_from_its_sample(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    group = played(args)
    expected = [s.reward for s in group]
    for member in group:
        member.reward = None
    assert asyncio.run(plugin.group_reward(args, group)) == expected
    assert asyncio.run(plugin.reward(args, group[1])) == expected[1]


def test_text_that_another_function_generated_is_scored_by_the_rewards(
    slime_config: Any, slime_args: Any
) -> None:
    setup = {
        "rollout_reward_configs": {"substring_match": {}},
        "environment_reward_weight": 0.0,
    }
    rows = [{"id": "t", "prompt": "q", "label": "42"}]
    args = slime_args(slime_config(rows=rows, sections={"reward_setup": setup}))
    (group,) = plugin.DataSource(args).get_samples(1)
    encode = slime_encode(args)
    for member, text in zip(group, ("it is 42", "no idea", "42"), strict=True):
        member.tokens = [1, *encode(text)]
        member.response, member.response_length = text, len(encode(text))
        member.rollout_log_probs = [-0.5] * member.response_length
        member.status = type(member).Status.COMPLETED
    assert asyncio.run(plugin.reward(args, group)) == [1.0, 0.0, 1.0]


def slime_encode(args: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.hf_checkpoint)
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("rewards", "kept", "reason"),
    [
        ([1.0, 0.0, 1.0], True, None),
        ([1.0, 1.0, 1.0], False, "all_rewards_are_1"),
        ([1.0, None, None], False, "fewer_than_two_valid_episodes"),
    ],
)
def test_groups_that_teach_nothing_are_dropped(
    rewards: list[float | None], kept: bool, reason: str | None
) -> None:
    group = [
        sample(0, n, 0.0 if reward is None else reward, remove_sample=reward is None)
        for n, reward in enumerate(rewards)
    ]
    output = plugin.dynamic_filter(None, group)
    assert (output.keep, output.reason) == (kept, reason)
    nested = [[member] for member in group]
    assert plugin.dynamic_filter(None, nested).keep == kept


def test_buffer_gives_what_has_waited_longest() -> None:
    buffer = [[sample(n, n, 0.0)] for n in range(3)]
    taken = plugin.buffer_filter(None, None, buffer, 2)
    assert [group[0].group_index for group in taken] == [0, 1]
    assert [group[0].group_index for group in buffer] == [2]
