"""The event file that TensorBoard itself reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logged_runs import config, write_rows

from retrain.loggers.publishing import publishing

loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def scalars(run: Path) -> dict[str, list[Any]]:
    accumulator = loading.EventAccumulator(str(run / "tensorboard"))
    accumulator.Reload()
    return {name: accumulator.Scalars(name) for name in accumulator.Tags()["scalars"]}


def test_tensorboard_reads_what_metrics_jsonl_holds(tmp_path: Path) -> None:
    from retrain.report.metrics import read_metrics

    with publishing(config(tmp_path / "run", "tensorboard"), print, resume=False):
        write_rows(tmp_path / "run", 1, 2, 3)
    found = scalars(tmp_path / "run")
    assert set(found) == {"reward/mean", "train/loss"}, "what is not finite is left out"
    assert [(point.step, point.value) for point in found["train/loss"]] == [
        (1, -1),
        (2, -2),
        (3, -3),
    ]
    assert [point.value for point in found["reward/mean"]] == pytest.approx([0.1, 0.2, 0.3])
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    times = [row.time for row in rows if "train/loss" in row.values]
    assert [point.wall_time for point in found["train/loss"]] == pytest.approx(times)


def test_after_a_resume_it_holds_the_rows_that_remain(tmp_path: Path) -> None:
    run = config(tmp_path / "run", "tensorboard")
    with publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1, 2, 3)
    with publishing(run, print, resume=True):
        write_rows(tmp_path / "run", 3, 4, resume=True)
    assert [point.step for point in scalars(tmp_path / "run")["train/loss"]] == [1, 2, 3, 4]


def test_a_full_disk_stops_the_logger_and_not_the_run(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    notes: list[str] = []
    opened = Path.open

    def open_full(path: Path, mode: str = "r", **more: Any) -> Any:
        wanted = full if "tfevents" in path.name else path
        return opened(wanted, mode, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with publishing(config(tmp_path / "run", "tensorboard"), notes.append, resume=False):
            write_rows(tmp_path / "run", 1, 2)
    assert len(notes) == 1
    assert "logger tensorboard: stopped at iteration 1: OSError" in notes[0]
    assert "No space left on device" in notes[0]
