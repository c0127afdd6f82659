"""FSDP over two processes on gloo: one process's losses, and checkpoints that either reads."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.soak


def launch(processes: int, model: Path, folder: Path, *flags: str) -> list[list[dict[str, Any]]]:
    """The metrics of every step, by process."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    runner = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    command = [*runner, f"--master_port={port}", HERE / "sharded_run.py", model, folder, *flags]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


def close(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    assert len(one) == len(other)
    for step, also in zip(one, other, strict=True):
        assert step == pytest.approx(also, rel=1e-5, abs=1e-7)


def test_two_processes_have_the_losses_of_one(model_dir: Path, tmp_path: Path) -> None:
    """In the second step one row trains something, so one process has nothing to compute."""
    (alone,) = launch(1, model_dir, tmp_path / "one")
    first, second = launch(2, model_dir, tmp_path / "two")
    assert first == second
    close(first, alone)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_another_number_of_processes_goes_on(
    model_dir: Path, tmp_path: Path, before: int, after: int
) -> None:
    launch(before, model_dir, tmp_path / "moved")
    moved = launch(after, model_dir, tmp_path / "moved", "--resume")
    launch(1, model_dir, tmp_path / "stayed")
    stayed = launch(1, model_dir, tmp_path / "stayed", "--resume")
    assert [step["step"] for step in moved[0]] == [3.0, 4.0]
    close(moved[0], stayed[0])
