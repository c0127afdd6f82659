import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrain.errors import DataError
from retrain.report.metrics import MetricsLog, read_metrics
from retrain.report.run_folder import RunFolder
from retrain.report.trainer_logprobs import (
    TrainerRow,
    read_trainer_logprobs,
    write_trainer_logprobs,
)

WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from retrain.report.metrics import MetricsLog
log = MetricsLog(Path(sys.argv[1]))
for i in range(10**9):
    log.write(i, {"reward/mean": i / 3})
    if i == 20:
        print("going", flush=True)
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run", resume=False)
    with MetricsLog(folder.metrics) as log:
        for iteration in range(5):
            log.write(iteration, {"reward/mean": iteration / 10})
            folder.samples_of(iteration).write_text(f"{iteration}\n")
            folder.samples_of(iteration, split="eval").write_text(f"e{iteration}\n")
    return folder


def iterations(path: Path) -> list[int]:
    return [row.iteration for row in read_metrics(path)]


def test_later_rows_and_samples_move_aside_and_nothing_is_lost(run: RunFolder) -> None:
    before = run.metrics.read_bytes()
    (run.samples / "notes.txt").write_text("mine")
    aside = run.rewind(2)
    assert aside == run.path / "superseded" / "001"
    assert iterations(run.metrics) == [0, 1, 2]
    assert iterations(aside / "metrics.jsonl") == [3, 4]
    assert run.metrics.read_bytes() + (aside / "metrics.jsonl").read_bytes() + b"\n" == before
    assert {p.name for p in (aside / "samples").iterdir()} == {
        "3.jsonl", "4.jsonl", "eval-3.jsonl", "eval-4.jsonl",
    }  # fmt: skip
    assert (run.samples / "2.jsonl").read_text() == "2\n"
    assert (run.samples / "notes.txt").exists()
    assert "moved what followed iteration 2 to 001" in run.events.read_text()


def test_the_trainers_logprobs_of_later_iterations_move_aside_too(run: RunFolder) -> None:
    for iteration in range(5):
        write_trainer_logprobs(run.path, iteration, [TrainerRow(0, 0, [-float(iteration)])])
    aside = run.rewind(3)
    assert aside is not None
    assert read_trainer_logprobs(run.path, 4, 0, 0) is None
    assert read_trainer_logprobs(run.path, 3, 0, 0) == [-3.0]
    assert read_trainer_logprobs(aside, 4, 0, 0) == [-4.0]
    write_trainer_logprobs(run.path, 4, [TrainerRow(1, 0, [-9.0])])
    again = run.rewind(3)
    assert again is not None and read_trainer_logprobs(again, 4, 1, 0) == [-9.0]


def test_every_rewind_has_a_folder_of_its_own(run: RunFolder) -> None:
    assert run.rewind(3) == run.path / "superseded" / "001"
    assert run.rewind(3) is None
    with MetricsLog(run.metrics) as log:
        log.write(4, {})
    assert run.rewind(3) == run.path / "superseded" / "002"
    assert iterations(run.metrics) == [0, 1, 2, 3]


def test_a_run_killed_before_its_first_row_rewinds_to_nothing(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, resume=False) as run:
        assert run.rewind(0) is None


def test_a_torn_last_line_moves_aside_alone(run: RunFolder) -> None:
    with run.metrics.open("ab") as file:
        file.write(b'{"iteration": 2, "reward/me')
    with pytest.raises(DataError, match="half-written"):
        MetricsLog(run.metrics)
    aside = run.rewind(9)
    assert aside is not None
    assert (aside / "metrics.jsonl").read_bytes() == b'{"iteration": 2, "reward/me'
    assert iterations(run.metrics) == [0, 1, 2, 3, 4]
    MetricsLog(run.metrics).close()


def test_a_last_line_that_lacks_only_its_newline_is_kept(run: RunFolder) -> None:
    run.metrics.write_bytes(run.metrics.read_bytes()[:-1])
    assert run.rewind(4) is None
    with MetricsLog(run.metrics) as log:
        log.write(5, {})
    assert iterations(run.metrics) == [0, 1, 2, 3, 4, 5]


def test_a_row_edited_by_hand_is_named_and_nothing_moves(run: RunFolder) -> None:
    lines = run.metrics.read_text().splitlines(keepends=True)
    run.metrics.write_text("".join([*lines[:2], "oops\n", *lines[2:]]))
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 3: not valid JSON"):
        run.rewind(1)
    assert not (run.path / "superseded").exists()


@settings(max_examples=40)
@given(cut=st.integers(0, 10_000), checkpoint=st.integers(0, 6))
def test_wherever_the_file_was_cut_rows_are_kept_or_moved(
    tmp_path_factory: pytest.TempPathFactory, cut: int, checkpoint: int
) -> None:
    with RunFolder.create(tmp_path_factory.mktemp("run"), resume=False) as run:
        with MetricsLog(run.metrics) as log:
            for iteration in range(6):
                log.write(iteration, {"success": 0.5, "näme": 1})
        data = run.metrics.read_bytes()[: cut % 400]
        run.metrics.write_bytes(data)
        aside = run.rewind(checkpoint)
        moved = (aside / "metrics.jsonl").read_bytes() if aside else b""
        assert (run.metrics.read_bytes() + moved).replace(b"\n", b"") == data.replace(b"\n", b"")
        assert all(iteration <= checkpoint for iteration in iterations(run.metrics))
        MetricsLog(run.metrics).close()


def test_a_log_killed_in_mid_write_can_be_read_and_rewound(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, resume=False)
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(run.metrics)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
    rows = iterations(run.metrics)
    assert rows == list(range(len(rows)))
    run.rewind(20)
    kept = [json.loads(line)["iteration"] for line in run.metrics.read_text().splitlines()]
    assert kept == list(range(21))
