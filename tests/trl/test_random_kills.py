"""Random SIGKILLs over the modes of training; run with `pytest -m soak tests/trl`.

Each mode is killed `KILLS` times at random moments: while it starts, reads its checkpoint, plays,
trains or saves. It is resumed each time, and at last to its end. Then every task visit stands
exactly once, in order, in the lineage of weights that was kept.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_dead_rank import environment, free_port
from test_resume import HERE, trained, visits

from backends.trl.checkpoints import newest_checkpoint
from retrain.config import RunConfig, dump_config
from retrain.report.metrics import read_metrics
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.sources import make_tasks

KILLS = 4
ENDLESS = 1000
"""Iterations of the runs that are killed: none of them reaches its end."""

MODES: dict[str, dict[str, Any]] = {
    "one step": {},
    "two steps an iteration": {"global_batch_size": 6, "trl_per_device_train_batch_size": 3},
    "inner epochs": {"trl_num_iterations": 2, "global_batch_size": 6},
    "truncated importance sampling": {"importance_correction": "tis", "save_interval": 2},
    "adapter": {"peft": {"r": 4}},
    "two processes": {"processes": 2, "rollout_batch_size": 4},
}


def test_the_modes_are_killed_often_enough() -> None:
    assert KILLS * len(MODES) >= 20


@contextmanager
def running(config: Path, pids: Path, processes: int, *flags: str) -> Iterator[Any]:
    """A run in one process or, under torch's launcher, in several; it never outlives the block."""
    for left in pids.iterdir():
        left.unlink()
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
        command += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    command += [str(HERE / "killable_run.py"), str(config), "--pids", str(pids), *flags]
    with (config.parent / "errors.log").open("wb") as errors:
        process = subprocess.Popen(command, env=environment(), stderr=errors)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_killable(pids: Path, run: Path, rng: random.Random, process: Any) -> int:
    """Wait for a random moment; gives the process to kill."""
    wait(lambda: any(pids.iterdir()), process, 120.0)
    before = trained(run)
    if rng.random() < 0.75:
        wait(lambda: trained(run) > before, process, 240.0)
        time.sleep(rng.uniform(0.0, 2.0))
    else:
        time.sleep(rng.uniform(0.0, 8.0))
    return int(rng.choice(sorted(pids.iterdir())).read_text())


def wait(condition: Any, process: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "it ended before it was killed; see errors.log"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
def test_no_visit_is_lost_or_trained_twice(config: Any, tmp_path: Path, mode: str) -> None:
    hyper = {"num_iterations": ENDLESS, "save_interval": 1, **MODES[mode]}
    processes, peft = hyper.pop("processes", 1), hyper.pop("peft", None)
    made: RunConfig = config(**hyper)
    if peft is not None:
        model = {**made.model.model_dump(), "peft": peft}
        made = made.model_validate({**made.model_dump(), "model": model})
    path, pids = tmp_path / "config.yaml", tmp_path / "pids"
    path.write_text(dump_config(made))
    pids.mkdir()
    rng = random.Random(mode)
    run = made.output_dir
    kills = 0
    while kills < KILLS:
        flags = ["--resume"] if (run / "config.yaml").exists() else []
        with running(path, pids, processes, *flags) as process:
            victim = wait_until_killable(pids, run, rng, process)
            os.kill(victim, signal.SIGKILL)
            process.wait(timeout=90)
            kills += 1
            newest = newest_checkpoint(run / "checkpoints")
            step = None if newest is None else newest.step
            print(f"{mode}: kill {kills} at iteration {trained(run)}, newest checkpoint {step}")
    last = trained(run) + 2
    hyperparameters = made.algorithm.hyperparameters.model_copy(update={"num_iterations": last})
    algorithm = made.algorithm.model_copy(update={"hyperparameters": hyperparameters})
    path.write_text(dump_config(made.model_copy(update={"algorithm": algorithm})))
    with running(path, pids, processes, "--resume") as process:
        assert process.wait(timeout=300) == 0, (tmp_path / "errors.log").read_text()
    rows = read_metrics(run / "metrics.jsonl")
    assert [row.iteration for row in rows] == list(range(1, last + 1))
    tasks = make_tasks("list", made.prompt_source.source_config, tmp_path)
    groups = last * hyper.get("rollout_batch_size", 3)
    expected = DataBuffer(tasks, seed=made.seed).draw(groups)
    assert visits(run, last) == [(r.task.id, r.visit) for r in expected]
    print(f"{mode}: {kills} kills, {last} iterations, {groups} visits, each exactly once")
