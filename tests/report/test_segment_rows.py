"""Episodes of several segments in the samples file, the views and the metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from byte_episodes import episode, group, turn
from byte_text import ByteRenderer, decode, encode

from bridges import DataFormatBridge
from retrain.report.batch_metrics import batch_metrics
from retrain.report.episode_view import render_episode
from retrain.report.samples import read_samples, write_samples
from retrain.types import Segment, Timing, Trajectory

BRIDGE = DataFormatBridge(ByteRenderer())  # type: ignore[arg-type]


@pytest.fixture
def compacted() -> Trajectory:
    """Two segments of two turns and one, with the waits of three steps."""
    waits = [(-1, 1.0), (0, 2.0), (1, 4.0), (2, 8.0)]
    whole = episode(
        turn("one", " more? "),
        turn("two"),
        timings=tuple(Timing("environment", n, 0.0, seconds) for n, seconds in waits),
    )
    later = Segment(encode("3+4? so far: two. "), (turn("seven"),))
    return replace(whole, segments=(*whole.segments, later))


def test_a_row_says_which_segment_of_which_episode_it_is(
    compacted: Trajectory, tmp_path: Path
) -> None:
    path = tmp_path / "1.jsonl"
    write_samples(path, BRIDGE.to_samples(compacted), decode=decode)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["segment"], row["segments"]) for row in rows] == [(1, 2), (2, 2)]
    assert {(row["task_id"], row["visit"], row["rollout_id"]) for row in rows} == {("sum-1", 2, 0)}
    assert [part["text"] for part in rows[1]["turns"]] == ["3+4? so far: two. ", "seven"]
    assert BRIDGE.to_trajectory(list(read_samples(path))) == compacted


def test_the_environment_s_seconds_are_counted_once(compacted: Trajectory) -> None:
    seconds = [sample.non_generation_time for sample in BRIDGE.to_samples(compacted)]
    assert seconds == [1.0 + 2.0 + 4.0, 8.0]
    assert sum(seconds) == compacted.seconds("environment")


def test_both_views_name_the_segment(compacted: Trajectory) -> None:
    shown = render_episode(compacted, decode, plain=True).plain
    assert "-- segment 1 of 2 --\n3+4? ⟦one⟧ more? ⟦two⟧" in shown
    assert "-- segment 2 of 2 --\n3+4? so far: two. ⟦seven⟧" in shown
    second = render_episode(BRIDGE.to_samples(compacted)[1], decode, plain=True).plain
    assert second.startswith("== task sum-1 visit 2 sample 0  segment 2 of 2  status completed")


@pytest.mark.parametrize("parts", [1, 2])
def test_the_metrics_count_segments_and_each_token_once(compacted: Any, parts: int) -> None:
    cut = replace(compacted, segments=compacted.segments[:parts])
    metrics = batch_metrics([group(cut)])
    assert metrics["response/segments"] == parts
    assert metrics["response/tokens"] == len("onetwo") + (parts - 1) * len("seven")
    assert metrics["response/length"] == metrics["response/tokens"] + len(" more? ")
