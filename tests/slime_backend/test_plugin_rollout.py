"""`generate_rollout`: what slime is given is what our own bridges collected, in slime's shape."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.framework import framework
from backends.slime.samples import flat
from retrain.errors import BackendFailure, ConfigError, TooManyFailures
from retrain.rollout.buffer import DataBuffer

BROKEN = [
    {"id": "good", "prompt": "question"},
    {"id": "reset", "prompt": "question", "broken": "reset"},
    {"id": "step", "prompt": "question", "broken": "step"},
]


def test_groups_are_those_of_the_bridges_token_by_token(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    context = context_of(args)
    buffer = DataBuffer(tuple(context.tasks.values()), seed=5)
    groups = asyncio.run(context.rollouts().collect(buffer.draw(2)))
    expected = [
        sample
        for group in groups
        for slot in context.composition.data_format.group_samples(group)
        for sample in slot
    ]
    given = list(flat(output.samples))
    assert [len(group) for group in output.samples] == [3, 3]
    assert len(given) == len(expected) == 6
    for sample, ours in zip(given, expected, strict=True):
        assert sample.tokens == ours.tokens
        assert sample.loss_mask == ours.loss_mask
        assert sample.rollout_log_probs == ours.rollout_log_probs
        assert sample.response == ours.response
        assert sample.response_length == ours.response_length
        assert sample.reward == ours.reward
        assert (sample.group_index, sample.index) == (ours.group_index, ours.index)
        assert sample.rollout_id == sample.index
        assert sample.weight_versions == ["0", "0", "0"]
        assert sample.prefix_cache_info.total_prompt_tokens > len(ours.prompt_ids)
        assert sample.status == framework().sample.Status.COMPLETED
        assert sample.non_generation_time > 0
        assert {*sample.loss_mask} == {0, 1}


def test_metrics_go_to_slimes_own_loggers_too(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    rewards = [sample.reward for sample in flat(output.samples)]
    assert output.metrics["reward/mean"] == pytest.approx(sum(rewards) / len(rewards))


def test_failed_episodes_keep_a_valid_shape_and_train_nothing(
    slime_config: Any, slime_args: Any
) -> None:
    sections = {
        "rollout": {"engine": "plugin_world:scripted", "max_failure_rate": 1.0},
    }
    args = slime_args(slime_config(rows=BROKEN, rollout_batch_size=3, sections=sections))
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    by_task = {group[0].metadata["retrain_request"]["task"]: group for group in output.samples}
    assert not any(sample.remove_sample for sample in by_task["good"])
    for sample in (*by_task["reset"], *by_task["step"]):
        assert len(sample.tokens) >= 2
        assert sample.response_length >= 1
        assert len(sample.loss_mask) == len(sample.rollout_log_probs) == sample.response_length
        assert not any(sample.loss_mask)
        assert sample.remove_sample
        assert sample.reward == 0.0
        assert sample.status == framework().sample.Status.FAILED
    assert {*by_task["reset"][0].rollout_log_probs} == {0.0}


def test_too_many_failures_stop_the_run(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config(rows=BROKEN, rollout_batch_size=3))
    with pytest.raises(TooManyFailures, match="6 of 9 episodes failed"):
        plugin.generate_rollout(args, 0, plugin.DataSource(args))


def test_refill_draws_another_task_from_slimes_data_source(
    slime_config: Any, slime_args: Any
) -> None:
    rollout = {"engine": "plugin_world:scripted", "failure": {"environment": "refill"}}
    config = slime_config(rows=BROKEN[:2], rollout_batch_size=2, sections={"rollout": rollout})
    args = slime_args(config)
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    played = [group[0].metadata["retrain_request"]["task"] for group in output.samples]
    assert played == ["good", "good"]
    assert len({group[0].group_index for group in output.samples}) == 2
    assert not any(sample.remove_sample for sample in flat(output.samples))


def test_any_data_source_of_slimes_will_do(slime_config: Any, slime_args: Any) -> None:
    """One that knows nothing of retrain: every group is a task by itself."""

    class Source:
        def get_samples(self, count: int) -> list[list[Any]]:
            return [[self._sample(group, member) for member in (0, 1)] for group in range(count)]

        def _sample(self, group: int, member: int) -> Any:
            prompt = [{"role": "user", "content": f"q{group}"}]
            index = 2 * group + member
            return framework().sample(index=index, prompt=prompt, label=str(group))

    args = slime_args(slime_config())
    output = plugin.generate_rollout(args, 4, Source())
    assert [len(group) for group in output.samples] == [2, 2]
    assert [group[0].group_index for group in output.samples] == [8, 9]
    assert all(sample.reward is not None for sample in flat(output.samples))
    first, second = output.samples[0]
    assert first.tokens != second.tokens, "members have seeds of their own"


@pytest.mark.parametrize("sizes", [[1], [1, 0], [2, 3]])
def test_data_source_that_gives_no_even_groups_is_refused(
    slime_config: Any, slime_args: Any, sizes: list[int]
) -> None:
    class Source:
        def get_samples(self, count: int) -> list[list[Any]]:
            return [[framework().sample(index=0, prompt="q")] * size for size in sizes]

    with pytest.raises(BackendFailure, match=rf"asked for 2 groups .* {re.escape(str(sizes))}"):
        plugin.generate_rollout(slime_args(slime_config()), 0, Source())


def test_slime_without_a_router_plays_nothing(slime_config: Any, slime_args: Any) -> None:
    """Least of all with weights that slime does not update."""
    args = slime_args(slime_config(), sglang_router_ip=None, sglang_router_port=None)
    with pytest.raises(ConfigError, match="slime has started no router"):
        plugin.generate_rollout(args, 0, plugin.DataSource(args))


def test_evaluation_gives_known_rewards_and_keeps_the_rest_for_the_log(
    slime_config: Any, slime_args: Any
) -> None:
    evaluation = {
        "prompt_source": {"type": "list", "source_config": {"items": BROKEN}},
        "n_samples_per_prompt": 2,
    }
    rollout = {"engine": "plugin_world:scripted", "max_failure_rate": 1.0}
    config = slime_config(sections={"evaluation": evaluation, "rollout": rollout})
    args = slime_args(config)
    output = plugin.generate_rollout(args, 0, None, evaluation=True)
    column = output.data["heldout"]
    assert len(column["rewards"]) == len(column["truncated"]) == len(column["samples"]) == 2
    assert output.metrics["eval/rollout/episodes"] == 6
    assert output.metrics["eval/rollout/failed"] == 4
    assert output.metrics["eval/reward/mean"] == pytest.approx(sum(column["rewards"]) / 2)


def test_nothing_is_in_flight_after_a_rollout_that_failed(
    slime_config: Any, router_args: Any, served: Any
) -> None:
    """Under colocation the trainer takes the engine's memory when `generate_rollout` is over."""
    rollout = {"engine_retries": 0, "failure": {"engine": "raise"}}
    config = slime_config(rollout_batch_size=1, sections={"rollout": rollout})
    args = router_args(config)
    served.faults.extend(["hang", "hang", 400])
    with pytest.raises(BackendFailure, match="HTTP 400"):
        plugin.generate_rollout(args, 0, plugin.DataSource(args))
    asked = [body["rid"] for body in served.calls("/generate") if "rid" in body]
    assert len(asked) == 3
    assert {body["rid"] for body in served.calls("/abort_request")} >= set(asked[:2])
    assert not served.running
