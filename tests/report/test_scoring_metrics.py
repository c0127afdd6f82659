"""Failures of components and normalised rewards as metrics."""

from __future__ import annotations

from dataclasses import replace

from byte_episodes import episode as make_episode
from byte_episodes import turn

from retrain.report.scoring_metrics import scoring_metrics
from retrain.types import Scoring, Trajectory


def episode(reward: float | None, scoring: Scoring | None) -> Trajectory:
    return replace(make_episode(turn("x")), reward=reward, scoring=scoring)


def test_failures_are_counted_by_component_and_reason() -> None:
    failed = Scoring(failures={"judge": "timeout"}, retries={"judge": 2})
    episodes = [
        episode(None, failed),
        episode(None, failed),
        episode(1.0, Scoring(failures={"judge": "value", "math": "count"})),
        episode(1.0, None),
    ]
    assert scoring_metrics(episodes) == {
        "reward/failed/judge/timeout": 2,
        "reward/failed/judge/value": 1,
        "reward/failed/math/count": 1,
        "reward/retried/judge": 4,
    }


def test_trained_rewards_are_averaged_over_valid_episodes() -> None:
    episodes = [
        episode(1.0, Scoring(trained=0.5, normalised={"math": 1.0, "mean": 4.0})),
        episode(2.0, Scoring(trained=1.5, normalised={"math": 3.0})),
        episode(None, Scoring(trained=99.0, normalised={"math": 99.0})),
    ]
    assert scoring_metrics(episodes) == {
        "reward/trained/mean": 1.0,
        "reward/trained/math": 2.0,
        "reward/trained/mean_component": 4.0,
    }


def test_nothing_is_said_where_nothing_happened() -> None:
    assert scoring_metrics([episode(1.0, None)]) == {}
