from __future__ import annotations

from pathlib import Path

from retrain.report.trainer_logprobs import (
    TRAINER_LOGPROBS,
    TrainerRow,
    read_trainer_logprobs,
    write_trainer_logprobs,
)


def test_a_row_that_a_killed_run_left_in_half_costs_no_other(tmp_path: Path) -> None:
    write_trainer_logprobs(tmp_path, 3, [TrainerRow(0, 0, [-0.5, None])])
    path = tmp_path / TRAINER_LOGPROBS / "3.jsonl"
    path.write_bytes(path.read_bytes() + b'{"index": 1, "segment": 0, "logpr')
    write_trainer_logprobs(tmp_path, 3, [TrainerRow(1, 0, [-1.0])])
    assert read_trainer_logprobs(tmp_path, 3, 0, 0) == [-0.5, None]
    assert read_trainer_logprobs(tmp_path, 3, 1, 0) == [-1.0]


def test_what_a_resume_writes_again_is_what_counts(tmp_path: Path) -> None:
    write_trainer_logprobs(tmp_path, 3, [TrainerRow(0, 0, [-0.5])])
    write_trainer_logprobs(tmp_path, 3, [TrainerRow(0, 0, [-0.25])])
    assert read_trainer_logprobs(tmp_path, 3, 0, 0) == [-0.25]
    assert read_trainer_logprobs(tmp_path, 3, 0, 1) is None
    assert read_trainer_logprobs(tmp_path, 4, 0, 0) is None
