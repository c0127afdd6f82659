"""A rank that dies: the others say so and end by themselves, whatever launched them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from backends.trl.backend import TRLBackend
from backends.trl.failures import training_failure
from retrain.config import dump_config, load_config
from retrain.launch import Launch
from retrain.report.metrics import read_metrics

pytestmark = pytest.mark.timeout(900)

HERE = Path(__file__).parent
SECONDS = 120.0
"""Most time that a survivor may take, on a busy machine; gloo itself notices at once."""

LOST = "cannot go on: another rank has ended or was killed"


@pytest.fixture
def dying(config: Any, tmp_path: Path) -> Path:
    made = config(
        num_iterations=4,
        rollout_batch_size=4,
        trl_per_device_train_batch_size=2,
        global_batch_size=8,
        save_interval=1,
    )
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(made))
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}


def start_ranks(*arguments: str) -> list[subprocess.Popen[str]]:
    """Two ranks with nobody to end one when the other dies."""
    port = str(free_port())
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / "dying_run.py"), *arguments],
            env=environment(**shared, RANK=str(rank), LOCAL_RANK=str(rank)),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dead", "place"),
    [
        (0, "step"),
        (1, "collection"),
        pytest.param(0, "collection", marks=pytest.mark.soak),
        pytest.param(1, "step", marks=pytest.mark.soak),
    ],
)
def test_survivor_of_a_killed_rank_says_so_and_ends(dying: Path, dead: int, place: str) -> None:
    ranks = start_ranks(str(dying), str(dead), place, "kill")
    survivor = ranks[1 - dead]
    try:
        assert ranks[dead].wait(timeout=600) == -9
        began = time.monotonic()
        _, errors = survivor.communicate(timeout=SECONDS)
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert survivor.returncode == 1
    assert f"error: rank {1 - dead} of 2 {LOST}" in errors
    assert time.monotonic() - began < SECONDS
    done = [row.iteration for row in read_metrics(dying.parent / "run" / "metrics.jsonl")]
    assert done == [1], "it died in the second iteration"


@pytest.mark.slow
def test_a_rank_that_hangs_is_given_up_in_time(dying: Path) -> None:
    limited = load_config(dying, ["algorithm.hyperparameters.trl_ddp_timeout=15"])
    dying.write_text(dump_config(limited))
    ranks = start_ranks(str(dying), "1", "step", "stop")
    try:
        _, errors = ranks[0].communicate(timeout=600)
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert ranks[0].returncode == 1
    assert "rank 0 of 2 cannot go on: another rank has not answered in time" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "how", "words"),
    [
        ("step", "kill", "Signal 9 (SIGKILL)"),
        ("step", "raise", "the card fell off the bus (on rank 1, "),
    ],
)
def test_launcher_ends_with_the_reason(dying: Path, place: str, how: str, words: str) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    launcher += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    done = subprocess.run(
        [*launcher, str(HERE / "dying_run.py"), str(dying), "1", "step", how],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode != 0
    assert words in done.stderr


def test_only_a_lost_connection_is_taken_for_a_lost_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [::1]:55")
    assert LOST in (Launch(2, 1).lost(closed) or "")
    assert Launch(2, 1).lost(RuntimeError("shape mismatch")) is None
    assert Launch(2, 1).lost(ConnectionResetError("Connection reset by peer")) is None
    assert Launch().lost(closed) is None, "one process has no other"


def test_failure_of_another_rank_is_not_called_a_failure_of_trl(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TRLBackend().plan(config(rollout_batch_size=4))
    monkeypatch.setenv("WORLD_SIZE", "2")
    failure = training_failure(RuntimeError("gloo: Connection reset by peer"), plan)
    assert LOST in str(failure) and "TRL" not in str(failure)
