import re
from statistics import stdev

import pytest
from byte_episodes import episode, group, turn

from retrain.report.batch_metrics import batch_metrics
from retrain.report.metric_names import METRICS
from retrain.sample import Status
from retrain.types import StopReason, Timing


def test_rewards_come_from_valid_episodes_and_spread_is_within_groups() -> None:
    easy = group(episode(turn("a"), reward=1.0), episode(turn("a"), reward=1.0))
    mixed = group(
        episode(turn("a"), reward=0.0),
        episode(turn("a"), reward=2.0),
        episode(turn("a"), reward=9.0, masked=True),
        episode(turn("a"), reward=None, status=Status.FAILED),
    )
    alone = group(episode(turn("a"), reward=1.0), episode(reward=None, status=Status.FAILED))
    metrics = batch_metrics([easy, mixed, alone])
    assert metrics["reward/mean"] == 1.0
    assert metrics["reward/std"] == pytest.approx((0.0 + stdev([0.0, 2.0])) / 2)
    assert metrics["rollout/zero_variance_groups"] == 1
    assert metrics["rollout/masked"] == 1
    assert metrics["rollout/groups"] == 3
    assert metrics["rollout/episodes"] == 8


def test_components_are_averaged_where_they_are_known() -> None:
    metrics = batch_metrics(
        [
            group(
                episode(turn("a"), rewards={"format": 1.0, "exact": 0.0}),
                episode(turn("a"), rewards={"format": 0.0}),
            )
        ]
    )
    assert metrics["reward/format"] == 0.5
    assert metrics["reward/exact"] == 0.0


def test_a_component_called_mean_does_not_hide_the_mean() -> None:
    metrics = batch_metrics([group(episode(turn("a"), reward=3.0, rewards={"mean": 1.0}))])
    assert metrics["reward/mean"] == 3.0
    assert metrics["reward/mean_component"] == 1.0


def test_success_is_what_the_last_turn_says() -> None:
    won = episode(turn("a", info={"success": False}), turn("b", info={"success": True}))
    lost = episode(turn("a", info={"success": True}), turn("b", info={"success": False}))
    silent = episode(turn("a"))
    odd = episode(turn("a", info={"success": "yes"}))
    assert batch_metrics([group(won, lost, silent, odd)])["success"] == 0.5
    assert "success" not in batch_metrics([group(silent, odd)])


def test_an_episode_cut_short_is_no_success_but_a_failed_one_is_not_counted() -> None:
    won = episode(turn("a", info={"success": True}))
    cut = episode(turn("a"), status=Status.TRUNCATED, stop_reason=StopReason.MAX_TURNS)
    broken = episode(turn("a", info={"success": False}), status=Status.FAILED, reward=None)
    assert batch_metrics([group(won, cut, broken)])["success"] == 0.5
    assert "success" not in batch_metrics([group(cut, broken)])


def test_failures_are_counted_by_boundary() -> None:
    batch = group(
        episode(status=Status.FAILED, reward=None),
        episode(turn("a")),
        episode(turn("a"), status=Status.ABORTED, reward=None),
        episode(turn("a"), status=Status.TRUNCATED),
    )
    metrics = batch_metrics([batch])
    assert metrics["rollout/failed"] == metrics["rollout/failed/environment"] == 1
    assert metrics["rollout/aborted"] == metrics["rollout/truncated"] == 1
    assert metrics["rollout/masked"] == 0


def test_lengths_speed_and_waits() -> None:
    first = episode(
        turn("abcd", "re"),
        turn("ef", cached_tokens=9),
        timings=(Timing("engine", 0, 0.0, 2.0), Timing("environment", 0, 2.0, 1.0)),
    )
    second = episode(turn("gh"))
    metrics = batch_metrics([group(first, second)], seconds=4.0)
    assert metrics["response/tokens"] == (6 + 2) / 2
    assert metrics["response/length"] == (8 + 2) / 2
    assert metrics["response/turns"] == 1.5
    assert metrics["rollout/tokens_per_second"] == 8 / 4.0
    assert metrics["rollout/cached_tokens"] == 9
    assert metrics["rollout/engine_seconds"] == 2.0
    assert metrics["rollout/environment_seconds"] == 0.5


def test_an_empty_batch_counts_nothing_and_averages_nothing() -> None:
    metrics = batch_metrics([])
    assert metrics["rollout/episodes"] == 0
    assert "reward/mean" not in metrics


def test_every_name_written_is_in_the_table() -> None:
    batch = group(
        episode(turn("a", info={"success": True}), rewards={"exact": 1.0}),
        episode(turn("b"), status=Status.FAILED, reward=None),
    )
    known = [re.sub(r"[A-Z]{2,}", r"[^/]+", metric.name) for metric in METRICS]
    for name in batch_metrics([batch], seconds=1.0):
        assert any(re.fullmatch(pattern, name) for pattern in known), name
    evaluation = batch_metrics([batch], seconds=1.0, prefix="eval/")
    assert {"eval/success", "eval/reward/mean"} <= evaluation.keys()
    assert len({metric.name for metric in METRICS}) == len(METRICS)
