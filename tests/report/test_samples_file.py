import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from byte_episodes import episode, turn
from byte_text import ByteRenderer, decode, encode

from bridges.data_format import DataFormatBridge
from retrain.errors import DataError, RunFolderError
from retrain.report.samples import read_samples, write_samples
from retrain.sample import Sample, Status
from retrain.types import Segment, Trajectory

BRIDGE = DataFormatBridge(ByteRenderer())  # type: ignore[arg-type]


def trajectory() -> Trajectory:
    return episode(
        turn("<call>3+4é", "=7\n", info={"success": False}),
        turn("7", weight_version="3"),
        rewards={"exact": 1.0, "format": 0.5},
        reward=1.5,
    )


def test_samples_come_back_equal_and_give_the_episode_back(tmp_path: Path) -> None:
    failed = episode(status=Status.FAILED, reward=None, sample_index=1)
    segments = (*trajectory().segments, Segment(encode("again "), (turn("seven"),)))
    forked = replace(trajectory(), segments=segments, index=2)
    written = [s for t in (trajectory(), failed, forked) for s in BRIDGE.to_samples(t, 0.7)]
    path = tmp_path / "1.jsonl"
    assert write_samples(path, written, decode=decode) == 4
    read = list(read_samples(path))
    assert read == written
    assert BRIDGE.to_trajectory(read[:1]) == trajectory()
    assert BRIDGE.to_trajectory(read[2:]) == forked


def test_a_row_can_be_read_by_itself(tmp_path: Path) -> None:
    write_samples(tmp_path / "1.jsonl", BRIDGE.to_samples(trajectory(), 0.7), decode=decode)
    row = json.loads((tmp_path / "1.jsonl").read_text())
    assert (row["task_id"], row["visit"], row["seed"]["sample_index"]) == ("sum-1", 2, 0)
    assert row["turns"] == [
        {"from": "prompt", "text": "3+4? ", "pieces": [1] * 5},
        {"from": "model", "text": "<call>3+4é", "pieces": [1] * 10 + [0]},
        {"from": "environment", "text": "=7\n", "pieces": [1] * 3},
        {"from": "model", "text": "7", "pieces": [1]},
    ]
    assert row["rewards"] == {"exact": 1.0, "format": 0.5}
    assert (row["advantage"], row["status"], row["stop_reason"]) == (0.7, "completed", "terminated")
    assert len(row["loss_mask"]) == len(row["rollout_log_probs"]) == row["response_length"]


def test_a_failure_is_on_its_row(tmp_path: Path) -> None:
    failed = episode(status=Status.FAILED, reward=None)
    write_samples(tmp_path / "1.jsonl", BRIDGE.to_samples(failed))
    row = json.loads((tmp_path / "1.jsonl").read_text())
    assert row["error"] == "environment: step: KeyError: 'x'"


def test_a_sample_that_no_bridge_made_is_written_too(tmp_path: Path) -> None:
    bare = Sample(tokens=[1, 2], response_length=1, loss_mask=[1], rollout_log_probs=[-1.0])
    write_samples(tmp_path / "1.jsonl", [bare], decode=decode)
    assert list(read_samples(tmp_path / "1.jsonl")) == [bare]


def test_numbers_that_are_not_finite_survive_as_valid_json(tmp_path: Path) -> None:
    odd = Sample(tokens=[1, 2, 3], rollout_log_probs=[math.nan, -1.0], advantage=math.inf)
    write_samples(tmp_path / "1.jsonl", [odd])
    assert "NaN" not in (tmp_path / "1.jsonl").read_text()
    (read,) = read_samples(tmp_path / "1.jsonl")
    assert math.isnan(read.rollout_log_probs[0])
    assert read.rollout_log_probs[1] == -1.0
    assert math.isnan(read.advantage)


def test_a_failure_in_mid_stream_leaves_the_old_file(tmp_path: Path) -> None:
    def breaking() -> Iterator[Sample]:
        yield Sample()
        raise KeyError("stream")

    path = tmp_path / "1.jsonl"
    write_samples(path, [Sample(index=1)])
    with pytest.raises(KeyError):
        write_samples(path, breaking())
    assert [sample.index for sample in read_samples(path)] == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["1.jsonl"]


@pytest.mark.parametrize("label", [object(), b"\xff", "\ud800"])
def test_what_json_cannot_hold_is_named(tmp_path: Path, label: object) -> None:
    with pytest.raises(DataError, match="sample 4 of group 2 cannot be written as JSON"):
        write_samples(tmp_path / "1.jsonl", [Sample(index=4, group_index=2, label=label)])


def test_a_row_that_is_no_sample_is_named_by_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    write_samples(path, [Sample()])
    path.write_text(path.read_text() + '{"tokens": "x"}\n')
    with pytest.raises(DataError, match=r"1\.jsonl, line 2: tokens: Input should be a valid list"):
        list(read_samples(path))


def test_a_torn_last_row_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    write_samples(path, [Sample(index=1), Sample(index=2)])
    path.write_bytes(path.read_bytes()[:-30])
    assert [sample.index for sample in read_samples(path)] == [1]


def test_a_missing_file_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"9\.jsonl: cannot be read"):
        list(read_samples(tmp_path / "9.jsonl"))
    with pytest.raises(RunFolderError, match="cannot be written: No such file"):
        write_samples(tmp_path / "none" / "1.jsonl", [])
