"""`DataSource`: slime draws our order of tasks, and a resumed run goes on exactly there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.live_episodes import BEGUN_AGAIN
from retrain.errors import ConfigError, DataError
from retrain.rollout.buffer import DataBuffer


def drawn(groups: list[list[Any]]) -> list[tuple[str, int]]:
    requests = [group[0].metadata["retrain_request"] for group in groups]
    return [(request["task"], request["visit"]) for request in requests]


def test_groups_are_those_of_the_data_buffer(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    buffer = DataBuffer(tuple(context_of(args).tasks.values()), seed=5)
    expected = [(request.task.id, request.visit) for request in buffer.draw(7)]
    groups = source.get_samples(3) + source.get_samples(4)
    assert drawn(groups) == expected
    assert [group[0].group_index for group in groups] == list(range(7))
    assert [s.index for group in groups for s in group] == list(range(21))
    assert len(source) == 5, "tasks of an epoch: slime derives its number of rollouts from it"


def test_save_writes_the_state_of_the_rollout_that_it_is_asked_for(
    slime_config: Any, slime_args: Any
) -> None:
    """train_async.py begins generate(1) before it calls save(0)."""
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    plugin.generate_rollout(args, 0, source)
    second = plugin.generate_rollout(args, 1, source).samples
    source.save(0)
    source.get_samples(1)
    source.save(1)
    resumed = plugin.DataSource(slime_args(slime_config()))
    resumed.load(0)
    assert drawn(resumed.get_samples(2)) == drawn(second)
    resumed.load(1)
    assert drawn(resumed.get_samples(1)) == drawn(fresh(args, 5)[4:])


def fresh(args: Any, count: int) -> list[list[Any]]:
    groups: list[list[Any]] = plugin.DataSource(args).get_samples(count)
    return groups


def test_rollouts_that_slimes_collector_filled_are_remembered_by_the_log(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    source.get_samples(2)
    plugin.log_rollout(0, args, [], {}, 1.0)
    source.get_samples(1)
    source.save(0)
    source.load(0)
    assert drawn(source.get_samples(1)) == drawn(fresh(args, 3)[2:])


@pytest.mark.parametrize("beginning", [-1, None])
def test_before_the_first_rollout_there_is_nothing_to_load(
    slime_config: Any, slime_args: Any, beginning: int | None
) -> None:
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    expected = drawn(source.get_samples(2))
    source.load(beginning)
    assert drawn(source.get_samples(2)) == expected


def test_unfinished_groups_come_first_and_survive_a_resume(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    groups = source.get_samples(3)
    source.add_samples(groups[1:])
    source.snapshot(0)
    source.save(0)
    assert drawn(source.get_samples(3))[:2] == drawn(groups[1:])
    resumed = plugin.DataSource(slime_args(slime_config()))
    resumed.load(0)
    again = resumed.get_samples(3)
    assert drawn(again)[:2] == drawn(groups[1:])
    assert [g[0].group_index for g in again] == [1, 2, 3]


def test_a_filter_of_the_users_takes_from_the_buffer(slime_config: Any, slime_args: Any) -> None:
    path = "test_plugin_data_source.newest_first"
    args = slime_args(slime_config(), buffer_filter_path=path)
    source = plugin.DataSource(args)
    groups = source.get_samples(2)
    source.add_samples(groups)
    assert drawn(source.get_samples(1)) == drawn(groups[1:])


def newest_first(args: Any, rollout_id: Any, buffer: list[Any], count: int) -> list[Any]:
    return [buffer.pop() for _ in range(count)]


def test_group_of_another_size_is_not_taken_back(slime_config: Any, slime_args: Any) -> None:
    source = plugin.DataSource(slime_args(slime_config()))
    (group,) = source.get_samples(1)
    with pytest.raises(ValueError, match="a group of 2 samples was given back; groups have 3"):
        source.add_samples([group[:2]])


def test_state_that_is_not_there_is_named(slime_config: Any, slime_args: Any) -> None:
    config = slime_config()
    source = plugin.DataSource(slime_args(config))
    with pytest.raises(DataError, match=r"data-3.json: no such file.*begin with"):
        source.load(3)
    with pytest.raises(DataError, match="data state of rollout 3: that rollout has not ended"):
        source.save(3)
    path = config.output_dir / "state" / "data-3.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(DataError, match=r"data-3\.json: is cut short or damaged"):
        source.load(3)


def test_state_of_other_tasks_is_refused(slime_config: Any, slime_args: Any) -> None:
    config = slime_config()
    source = plugin.DataSource(slime_args(config))
    source.snapshot(0)
    source.save(0)
    state = json.loads((config.output_dir / "state" / "data-0.json").read_text())["content"]
    assert state["buffer"]["drawn"] == 0
    other = plugin.DataSource(slime_args(slime_config(rows=["another task"])))
    with pytest.raises(DataError, match="the tasks of prompt_source have changed"):
        other.load(0)


def test_without_a_run_folder_nothing_can_be_saved() -> None:
    source = plugin.DataSource(None)
    source.snapshot(0)
    with pytest.raises(ConfigError, match="retrain_run_dir is not set"):
        source.save(0)


SLIMES = "slime.rollout.sglang_rollout.generate_rollout"
OWNER = {"sections": {"rollout": {"owner": "slime"}}}
NO_PARTIAL = {"sections": {"rollout": {"owner": "slime", "partial": False}}}


def marks(groups: list[list[Any]]) -> list[set[bool]]:
    return [{BEGUN_AGAIN in sample.metadata for sample in group} for group in groups]


def test_what_slimes_collector_throws_away_begins_afresh_and_survives_a_resume(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config(**OWNER), rollout_function_path=SLIMES)
    source = plugin.DataSource(args)
    trained, dropped, aborted, *lost = source.get_samples(5)
    for sample in dropped:
        sample.reward = 1.0
    assert not plugin.dynamic_filter(args, dropped).keep, "its rewards are all the same"
    source.add_samples([aborted])
    plugin.log_rollout(0, args, trained, {}, 1.0)
    source.save(0)
    resumed = plugin.DataSource(args)
    resumed.load(0)
    for goes_on in (source, resumed):
        again = goes_on.get_samples(4)
        assert drawn(again) == drawn([aborted, *lost, *fresh(args, 6)[5:]])
        assert marks(again)[1:] == [{True}, {True}, {False}]


@pytest.mark.parametrize(
    "options",
    [
        {"rollout_function_path": "another.collector"},
        {"rollout_function_path": SLIMES, "dynamic_sampling_filter_path": "another.filter"},
    ],
)
def test_what_others_collect_or_drop_is_left_to_them(
    slime_config: Any, slime_args: Any, options: dict[str, str]
) -> None:
    args = slime_args(slime_config(**OWNER), **options)
    source = plugin.DataSource(args)
    trained, _ = source.get_samples(2)
    plugin.log_rollout(0, args, trained, {}, 1.0)
    assert drawn(source.get_samples(1)) == drawn(fresh(args, 3)[2:])


def test_how_many_groups_begin_afresh_stands_in_the_run_folder(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config(**OWNER), rollout_function_path=SLIMES)
    source = plugin.DataSource(args)
    trained, aborted, _ = source.get_samples(3)
    source.add_samples([aborted])
    assert source.take_thrown_away(trained) == {"rollout/restarted": 1, "rollout/carried": 2}
    assert source.take_thrown_away([]) == {"rollout/restarted": 0, "rollout/carried": 2}


def test_without_partial_groups_what_slime_throws_away_is_given_up_and_counted(
    slime_config: Any, slime_args: Any
) -> None:
    """It is the rule of retrain's own manager, and what slime itself does with them."""
    args = slime_args(slime_config(**NO_PARTIAL), rollout_function_path=SLIMES)
    source = plugin.DataSource(args)
    trained, _, _ = source.get_samples(3)
    assert source.take_thrown_away(trained) == {"rollout/unfinished": 2}
    assert source.take_thrown_away([]) == {}
    assert drawn(source.get_samples(1)) == drawn(fresh(args, 4)[3:])
