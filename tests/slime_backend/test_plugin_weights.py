"""Weights that do not move after slime has updated them stop the run."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.samples import flat
from backends.slime.weights_watch import WeightsWatch
from retrain.errors import BackendFailure

ROUTER = {"sglang_router_ip": "127.0.0.1"}


def check(versions: dict[int, str], **options: Any) -> None:
    watch, args = WeightsWatch(), Namespace(**ROUTER, **options)
    for rollout_id, version in versions.items():
        watch.check(rollout_id, {version}, args)
        watch.check(rollout_id, {version}, args)


@pytest.mark.parametrize("first", [0, 17])
def test_versions_that_move_pass(first: int) -> None:
    check({first + n: str(n) for n in range(5)})


@pytest.mark.parametrize("first", [0, 17])
def test_the_asynchronous_loop_is_one_version_behind(first: int) -> None:
    check({first: "1", first + 1: "1", first + 2: "2", first + 3: "3"})


def test_an_interval_of_updates_is_respected() -> None:
    """train_async.py --update-weights-interval 2, as its loop gives versions to rollouts."""
    check(dict(enumerate("111223344")), update_weights_interval=2)
    with pytest.raises(BackendFailure, match=r"rollout 3: .* version 1, as in rollout 1"):
        check(dict(enumerate("1111")), update_weights_interval=2)


def test_weights_that_stand_still_are_named() -> None:
    with pytest.raises(BackendFailure, match="rollout 2: the engine still samples with weight"):
        check({0: "1", 1: "1", 2: "1"})


def test_one_engine_of_several_that_stands_still_is_noticed() -> None:
    watch, args = WeightsWatch(), Namespace(**ROUTER)
    for rollout_id, versions in enumerate([{"1"}, {"2"}]):
        watch.check(rollout_id, versions, args)
    with pytest.raises(BackendFailure, match="weight version 2, as in rollout 1"):
        watch.check(2, {"2", "3"}, args)


def test_rollouts_without_training_keep_their_version() -> None:
    check(dict.fromkeys(range(4), "1"), debug_rollout_only=True)


def test_engines_in_this_process_are_not_slimes_to_update(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config())
    source = plugin.DataSource(args)
    for rollout_id in range(4):
        plugin.generate_rollout(args, rollout_id, source)


def test_a_server_that_is_never_updated_stops_the_run(slime_config: Any, router_args: Any) -> None:
    args = router_args(slime_config(max_tokens_per_turn=4, rollout_batch_size=1))
    source = plugin.DataSource(args)
    for rollout_id in (0, 1):
        plugin.generate_rollout(args, rollout_id, source)
    with pytest.raises(BackendFailure, match="weight version default, as in rollout 1"):
        plugin.generate_rollout(args, 2, source)


def test_rollouts_that_slimes_collector_filled_are_checked_by_the_log(
    slime_config: Any, slime_args: Any, router_args: Any
) -> None:
    rollout = {"engine": "plugin_world:scripted", "owner": "slime"}
    config = slime_config(sections={"rollout": rollout})
    plain = slime_args(config)
    output = plugin.generate_rollout(plain, 0, plugin.DataSource(plain))
    samples, args = list(flat(output.samples)), router_args(config)
    for rollout_id in (0, 1):
        plugin.log_rollout(rollout_id, args, samples, {}, 1.0)
    with pytest.raises(BackendFailure, match="weight version 0, as in rollout 1"):
        plugin.log_rollout(2, args, samples, {}, 1.0)


def test_groups_that_were_over_when_they_were_given_back_are_no_evidence(
    slime_config: Any, slime_args: Any, router_args: Any
) -> None:
    rollout = {"engine": "plugin_world:scripted", "owner": "slime"}
    config = slime_config(sections={"rollout": rollout})
    plain = slime_args(config)
    groups = plugin.generate_rollout(plain, 0, plugin.DataSource(plain)).samples
    args = router_args(config)
    plugin.DataSource(args).add_samples(groups)
    for rollout_id in range(4):
        plugin.log_rollout(rollout_id, args, list(flat(groups)), {}, 1.0)
