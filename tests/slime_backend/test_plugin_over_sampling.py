"""`generate_rollout` with over-sampling, a filter and half-played groups that go on later."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.framework import framework
from backends.slime.samples import flat
from retrain.errors import ConfigError

ROLLOUT = {
    "engine": "uneven_world:uneven",
    "over_sampling_factor": 2.0,
    "filter": {"name": "check_reasonable_length", "max_tokens": 45},
}


def config_of(slime_config: Any, **rollout: Any) -> Any:
    return slime_config(
        num_iterations=100,
        n_samples_per_prompt=2,
        sections={"rollout": {**ROLLOUT, **rollout}},
    )


def visit(sample: Any) -> tuple[str, int]:
    request = sample.metadata["retrain_request"]
    return request["task"], request["visit"]


def left(source: Any, rollout_id: int) -> list[tuple[str, int]]:
    """The visits that were drawn and not handed out, as the rollout's snapshot has them."""
    state = source._snapshots[rollout_id]["rollout"]
    finished = [(row["group"]["task"]["id"], row["group"]["visit"]) for row in state["finished"]]
    return [*((row["task"], row["visit"]) for row in state["pending"]), *finished]


def rollouts(args: Any, source: Any, numbers: range) -> tuple[list[Any], Counter[str]]:
    """What some rollouts handed out, and what they dropped."""
    visits: list[Any] = []
    dropped: Counter[str] = Counter()
    for number in numbers:
        context_of(args).engine.weight_version = str(number)
        output = plugin.generate_rollout(args, number, source)
        assert [len(group) for group in output.samples] == [2, 2]
        visits += [visit(group[0]) for group in output.samples]
        metrics = output.metrics
        dropped.update({k: int(v) for k, v in metrics.items() if k.startswith("rollout/dropped/")})
        assert metrics["rollout/dropped"] == sum(
            v for k, v in metrics.items() if k.startswith("rollout/dropped/")
        )
        for sample in flat(output.samples):
            assert sample.weight_versions == sorted(sample.weight_versions, key=int)
            assert len(sample.loss_mask) == len(sample.rollout_log_probs) == sample.response_length
    return visits, dropped


def test_every_visit_is_trained_at_most_once_and_accounted_for_over_a_resume(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(config_of(slime_config))
    source = plugin.DataSource(args)
    before, dropped = rollouts(args, source, range(6))
    source.save(5)
    assert left(source, 5), "half-played or finished groups are left"
    rollouts(args, source, range(6, 8))
    resumed = plugin.DataSource(args)
    resumed.load(5)
    after, dropped_later = rollouts(args, resumed, range(6, 16))
    trained = Counter([*before, *after])
    assert set(trained.values()) == {1}
    waiting = left(resumed, 15)
    assert not trained.keys() & set(waiting)
    assert dropped, "the filter dropped some"
    drawn = resumed._buffer.drawn
    total = trained.total() + (dropped + dropped_later).total() + len(waiting)
    assert drawn == total


@pytest.mark.parametrize("interval", [1, 2])
def test_the_asynchronous_loops_own_lag_counts_against_the_bound(
    slime_config: Any, slime_args: Any, interval: int
) -> None:
    """Rollout n is generated after n - 1 were trained on, with weights of an update before."""
    bound = 3
    how = {"buffer_filter": "freshest_weights", "max_staleness": bound}  # the oldest wait longest
    made = config_of(slime_config, filter=None, asynchronous=True, **how)
    args = slime_args(made, update_weights_interval=interval)
    source = plugin.DataSource(args)
    for number in range(32):
        sent = max(number - 1, 0) // interval * interval
        context_of(args).engine.weight_version = str(sent)
        output = plugin.generate_rollout(args, number, source)
        wrote = [int(v) for sample in flat(output.samples) for v in sample.weight_versions]
        assert max(number - version for version in wrote) <= bound


def test_tokens_of_older_weights_can_be_masked(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(config_of(slime_config, mask_stale_tokens=True, filter=None))
    source = plugin.DataSource(args)
    stale = 0
    for number in range(12):
        context_of(args).engine.weight_version = str(number)
        output = plugin.generate_rollout(args, number, source)
        for sample in flat(output.samples):
            notes = sample.metadata["retrain"]["turns"]
            expected: list[int] = []
            for note in notes:
                spans = note.get("weight_spans") or [(note["output"], note["weight_version"])]
                for count, version in spans:
                    expected += [int(version == str(number))] * count
                expected += [0] * note["env"]
            assert list(sample.loss_mask) == expected
        stale += int(output.metrics["rollout/stale_tokens"])
    assert stale > 0


def test_metrics_of_the_filling_stand_in_the_run_folder(slime_config: Any, slime_args: Any) -> None:
    from retrain.report.metrics import read_metrics

    config = config_of(slime_config)
    args = slime_args(config)
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    samples = [sample for group in output.samples for sample in group]
    plugin.log_rollout(0, args, samples, output.metrics, 1.0)
    (row,) = read_metrics(config.output_dir / "metrics.jsonl")
    assert row.values["rollout/carried"] == output.metrics["rollout/carried"]
    assert "rollout/dropped" in row.values and "rollout/stale_tokens" in row.values


def played(args: Any) -> Any:
    (group,) = plugin.generate_rollout(args, 0, plugin.DataSource(args)).samples[:1]
    return group


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("check_reward_nonzero_std", ""),
        ({"name": "check_min_reward", "min_reward": 1e9}, "low_reward"),
        ({"name": "check_reasonable_length", "max_tokens": 1}, "too_long"),
        ({"not": {"name": "check_min_reward", "min_reward": -1.0}}, "not_check_min_reward"),
        ({"any_of": [{"name": "check_min_reward", "min_reward": 1e9}, "check_any_success"]}, ""),
    ],
)
def test_the_configured_filter_judges_slimes_own_groups(
    slime_config: Any, slime_args: Any, spec: Any, reason: str
) -> None:
    group = played(slime_args(slime_config()))
    rollout = {"engine": "plugin_world:scripted", "owner": "slime", "filter": spec}
    args = slime_args(slime_config(sections={"rollout": rollout}))
    output = plugin.dynamic_filter(args, group)
    assert isinstance(output, framework().filter_output)
    assert (output.keep, output.reason) == (not reason, reason or None)


def test_filters_are_there_by_name_for_slimes_option(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    group = played(args)
    check = framework().load("backends.slime.filters.check_any_success")
    assert check(args, group).keep
    assert framework().load("backends.slime.filters.check_response_diversity")(args, group).keep
    with pytest.raises(AttributeError, match="check_nothing"):
        framework().load("backends.slime.filters.check_nothing")


def test_a_fallback_lets_slime_keep_what_the_filter_refused(
    slime_config: Any, slime_args: Any
) -> None:
    group = played(slime_args(slime_config()))
    spec = {"name": "check_min_reward", "min_reward": 1e9}
    rollout = {
        "engine": "plugin_world:scripted",
        "owner": "slime",
        "filter": spec,
        "filter_fallback": True,
    }
    args = slime_args(slime_config(sections={"rollout": rollout}))
    output = plugin.dynamic_filter(args, group)
    assert not output.keep and output.keep_when_insufficient


def test_a_filter_that_is_no_filter_is_named(slime_config: Any, slime_args: Any) -> None:
    group = played(slime_args(slime_config()))
    rollout = {"engine": "plugin_world:scripted", "owner": "slime", "filter": "builtins:len"}
    args = slime_args(slime_config(sections={"rollout": rollout}))
    with pytest.raises(ConfigError, match=r"rollout\.filter"):
        plugin.dynamic_filter(args, group)


def test_slimes_count_of_dropped_groups_gets_our_names(slime_config: Any, slime_args: Any) -> None:
    from backends.slime.filters import dropped_by_slime

    theirs = {"rollout/dynamic_filter/drop_zero_std_1": 3, "other": 1.0}
    assert dropped_by_slime(theirs) == {"rollout/dropped": 3.0, "rollout/dropped/zero_std_1": 3.0}
    assert dropped_by_slime({"other": 1.0}) == {}
