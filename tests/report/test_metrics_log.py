import json
import math
from pathlib import Path

import numpy as np
import pytest

from retrain.errors import DataError, RunFolderError
from retrain.report.metrics import MetricsLog, read_metrics


def test_rows_are_on_disk_as_soon_as_they_are_written(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write(0, {"eval/success": 0.25})
    log.write(1, {"reward/mean": 0.5, "rollout/failed": 2})
    first, second = read_metrics(tmp_path / "m.jsonl")
    assert (first.iteration, first.values) == (0, {"eval/success": 0.25})
    assert second.values == {"reward/mean": 0.5, "rollout/failed": 2}
    assert second.time >= first.time > 1e9
    log.close()


def test_what_is_not_finite_is_null_and_every_line_is_strict_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    path = tmp_path / "m.jsonl"
    with MetricsLog(path) as log:
        log.write(1, {"a": math.nan, "b": -math.inf, "c": np.float32(1.5), "d": np.int64(3)})
    row = json.loads(path.read_text(), parse_constant=refuse)
    assert [row[name] for name in "abcd"] == [None, None, 1.5, 3.0]


def test_opening_again_appends(tmp_path: Path) -> None:
    for iteration in (1, 2):
        with MetricsLog(tmp_path / "m.jsonl") as log:
            log.write(iteration, {})
    assert [row.iteration for row in read_metrics(tmp_path / "m.jsonl")] == [1, 2]


@pytest.mark.parametrize("name", ["iteration", "time"])
def test_a_metric_cannot_take_the_name_of_a_column(tmp_path: Path, name: str) -> None:
    with MetricsLog(tmp_path / "m.jsonl") as log, pytest.raises(ValueError, match=name):
        log.write(1, {name: 1.0})


def test_a_torn_last_line_is_left_out_by_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"iteration": 1}\n\n{"iteration": 2, "reward/mean": 0.\xc3')
    assert [row.iteration for row in read_metrics(path)] == [1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "line 2: expected a JSON object, got \\[1\\]"),
        ('{"reward/mean": 1}', 'line 2: expected "iteration" to be a whole number'),
        ('{"iteration": true}', 'line 2: expected "iteration" to be a whole number'),
        ('{"iteration": 1, "success": "high"}', "line 2: 'success' is 'high', not a number"),
        ("{", "line 2: not valid JSON"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"iteration": 0}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"m\.jsonl, {message}"):
        read_metrics(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"m\.jsonl: cannot be read: No such file"):
        read_metrics(tmp_path / "m.jsonl")


def test_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(RunFolderError, match="/dev/full: cannot be written: No space left"):
        MetricsLog(Path("/dev/full")).write(1, {})
