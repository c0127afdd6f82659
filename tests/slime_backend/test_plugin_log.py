"""`log_rollout` and `log_eval`: the rows and samples of a run folder, as every backend writes."""

from __future__ import annotations

from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.samples import flat
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

HELD_OUT = [{"id": "h", "prompt": "q"}, {"id": "b", "prompt": "q", "broken": "step"}]
SECTIONS = {
    "evaluation": {"prompt_source": {"type": "list", "source_config": {"items": HELD_OUT}}},
}


@pytest.fixture
def config(slime_config: Any) -> Any:
    return slime_config(sections=SECTIONS)


def rolled_out(args: Any, rollout_id: int = 0) -> Any:
    return plugin.generate_rollout(args, rollout_id, plugin.DataSource(args))


def test_rollout_leaves_a_row_and_its_samples(config: Any, slime_args: Any) -> None:
    args = slime_args(config)
    output = rolled_out(args, 4)
    samples = list(flat(output.samples))
    assert plugin.log_rollout(4, args, samples, output.metrics, 2.0) is False
    (row,) = read_metrics(config.output_dir / "metrics.jsonl")
    assert row.iteration == 5
    timed = {"rollout/seconds", "rollout/tokens_per_second"}
    assert {k: v for k, v in row.values.items() if k not in timed} == pytest.approx(output.metrics)
    assert row.values["rollout/seconds"] == 2.0
    written = list(read_samples(config.output_dir / "samples" / "5.jsonl"))
    _, advantages = plugin.reward_post_process(args, samples)
    for ours, theirs, advantage in zip(written, samples, advantages, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.loss_mask == theirs.loss_mask
        assert ours.reward == theirs.reward
        assert ours.advantage == advantage
        ours.validate()


def test_what_slimes_hooks_removed_counts_as_masked(config: Any, slime_args: Any) -> None:
    args = slime_args(config)
    samples = list(flat(rolled_out(args).samples))
    kept = [sample.reward for sample in samples[1:]]
    samples[0].remove_sample = True
    samples[0].loss_mask = [0] * samples[0].response_length
    plugin.log_rollout(0, args, samples, {}, 1.0)
    (row,) = read_metrics(config.output_dir / "metrics.jsonl")
    assert row.values["rollout/masked"] == 1
    assert row.values["reward/mean"] == pytest.approx(sum(kept) / len(kept))


def test_samples_of_another_function_are_left_to_slime(config: Any, slime_args: Any) -> None:
    from backends.slime.framework import framework

    foreign = framework().sample(index=0, tokens=[1, 2], response_length=1, reward=1.0)
    args = slime_args(config)
    assert plugin.log_rollout(0, args, [foreign], {}, 1.0) is False
    assert not (config.output_dir / "samples" / "1.jsonl").exists()


def test_evaluation_before_training_is_iteration_zero(config: Any, slime_args: Any) -> None:
    args = slime_args(config)
    for rollout_id in (0, 0):
        output = plugin.eval_rollout(args, rollout_id, None, evaluation=True)
        assert plugin.log_eval(rollout_id, args, output.data, output.metrics) is False
        plugin.log_rollout(rollout_id, args, list(flat(rolled_out(args).samples)), {}, 1.0)
    rows = read_metrics(config.output_dir / "metrics.jsonl")
    evaluations = [row for row in rows if "eval/rollout/episodes" in row.values]
    assert [row.iteration for row in evaluations] == [0, 1]
    assert evaluations[0].values["eval/rollout/failed"] == 1, "failed ones are not forgotten"
    assert evaluations[0].values["eval/rollout/seconds"] > 0
    written = list(read_samples(config.output_dir / "samples" / "eval-0.jsonl"))
    assert len(written) == 2
    assert [sample.reward for sample in written if sample.remove_sample] == [None]


def test_evaluation_of_slimes_own_function_is_recorded_too(config: Any, slime_args: Any) -> None:
    args = slime_args(config)
    samples = list(flat(rolled_out(args).samples))
    data = {"theirs": {"rewards": [], "truncated": [], "samples": samples}}
    plugin.log_eval(7, args, data, None)
    (row,) = read_metrics(config.output_dir / "metrics.jsonl")
    assert row.iteration == 8
    assert row.values["eval/rollout/episodes"] == len(samples)


def test_too_many_failures_stop_a_rollout_that_slime_filled(
    slime_config: Any, slime_args: Any
) -> None:
    from retrain.errors import TooManyFailures

    rows = [{"id": "b", "prompt": "q", "broken": "step"}]
    rollout = {"engine": "plugin_world:scripted", "owner": "slime", "max_failure_rate": 1.0}
    config = slime_config(rows=rows, rollout_batch_size=1, sections={"rollout": rollout})
    args = slime_args(config)
    samples = list(flat(rolled_out(args).samples))
    strict = config.model_copy(
        update={"rollout": config.rollout.model_copy(update={"max_failure_rate": 0.5})}
    )
    with pytest.raises(TooManyFailures, match="3 of 3 episodes failed"):
        plugin.log_rollout(0, slime_args(strict), samples, {}, 1.0)
