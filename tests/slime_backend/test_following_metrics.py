from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from backends.slime.following_metrics import MetricsFollower
from retrain.report.metrics import MetricsLog


class Shown:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def start(self, total_iterations: int, title: str, *, completed: int = 0) -> None: ...

    def update(self, iteration: int, metrics: Mapping[str, float]) -> None:
        self.rows.append((iteration, dict(metrics)))

    def note(self, text: str) -> None: ...

    def stop(self) -> None: ...


def show(path: Path, *rows: tuple[int, dict[str, float]]) -> tuple[Shown, MetricsFollower]:
    shown = Shown()
    follower = MetricsFollower(path, shown, every=0.01)
    follower.start()
    with MetricsLog(path) as log:
        for iteration, row in rows:
            log.write(iteration, row)
    follower.stop()
    return shown, follower


def test_both_processes_rows_of_an_iteration_are_shown_as_one(tmp_path: Path) -> None:
    shown, follower = show(
        tmp_path / "metrics.jsonl",
        (0, {"eval/success": 0.1}),
        (1, {"reward/mean": 0.5}),
        (2, {"reward/mean": 0.6}),  # train_async.py generates ahead
        (1, {"train/loss": 1.0}),
        (2, {"train/loss": 2.0}),
    )
    assert shown.rows == [
        (0, {"eval/success": 0.1}),
        (1, {"reward/mean": 0.5, "train/loss": 1.0}),
        (2, {"reward/mean": 0.6, "train/loss": 2.0}),
    ]
    assert follower.latest == {"eval/success": 0.1, "reward/mean": 0.6, "train/loss": 2.0}


def test_rollouts_that_nothing_is_trained_on_are_shown_in_the_end(tmp_path: Path) -> None:
    shown, _ = show(
        tmp_path / "metrics.jsonl",
        (1, {"reward/mean": 0.5}),
        (2, {"reward/mean": 0.6}),
        (2, {"train/loss": 2.0}),
        (3, {"reward/mean": 0.7}),
    )
    assert [iteration for iteration, _ in shown.rows] == [1, 2, 3]


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    shown = Shown()
    follower = MetricsFollower(path, shown, every=0.01)
    follower.start()
    line = json.dumps({"iteration": 1, "time": 1.0, "train/loss": 0.5}) + "\n"
    with path.open("w") as file:
        file.write(line[:20])
        file.flush()
        time.sleep(0.05)
        file.write(line[20:])
    follower.stop()
    assert shown.rows == [(1, {"train/loss": 0.5})]


def test_rows_of_before_a_resume_are_not_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    show(path, (1, {"train/loss": 1.0}))
    shown, _ = show(path, (2, {"train/loss": 2.0}))
    assert shown.rows == [(2, {"train/loss": 2.0})]
