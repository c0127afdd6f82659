"""Runs that collect ahead, killed at random moments: in one process, and in two."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ahead_run import ahead_config
from test_over_sampling import ROLLOUT, account_of
from test_random_kills import running, wait_until_killable
from test_resume import trained, visits
from test_training_ahead import expected_visits, require_conserved, rows
from vllm_training_server import Start, serving
from warm_runs import kill_at_random
from warm_runs import start as begin

from backends.trl.checkpoints import newest_checkpoint
from retrain.config import RunConfig, dump_config

KILLS = 5
KILLS_OF_TWO = 2
BATCH = 4
ENDLESS = 1000
"""Iterations of the runs that are killed: none of them reaches its end."""

Write = Callable[..., RunConfig]


@pytest.fixture
def start(model_dir: Path) -> Iterator[Start]:
    """Starts servers in the test's own process: they outlive the runs."""
    with serving(model_dir) as make:
        yield make


def saved(run: Path) -> int:
    """The iteration of the newest checkpoint; 0 for none."""
    newest = newest_checkpoint(run / "checkpoints")
    return 0 if newest is None else newest.step


def conserved(made: RunConfig) -> int:
    """Balance the visits of the newest checkpoint; gives how many stand in it for later batches."""
    if made.rollout.over_sampling_factor > 1:
        account = account_of(made.output_dir)
        account.require_balanced(BATCH)
        return len(account.pending) + len(account.finished)
    newest = newest_checkpoint(made.output_dir / "checkpoints")
    assert newest is not None
    rollout = require_conserved(made, newest.step, BATCH)["rollout"]
    return len(rollout["pending"]) + len(rollout["finished"])


@pytest.fixture
def write(
    config: Any, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunConfig]:
    """Writes the configuration of a run of so many iterations.

    Each has a port of its own for the weights: that of a killed run may not be free yet.
    """
    monkeypatch.setattr("backends.trl.vllm_planning.can_take_weights", lambda: True)
    server = start()

    def write(iterations: int, **rollout: Any) -> RunConfig:
        hyper = {"num_iterations": iterations, "rollout_batch_size": BATCH, "learning_rate": 1e-5}
        sections = {"environment": {"type": "noisy_environment:RepeatableNoisy"}}
        made = ahead_config(config, server, **hyper, rollout=rollout, sections=sections)
        (tmp_path / "config.yaml").write_text(dump_config(made))
        return made

    return write


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rollout", [{}, {**ROLLOUT, "max_staleness": 2}], ids=["plain", "over"])
def test_no_visit_is_lost_or_trained_twice(
    write: Write, tmp_path: Path, rollout: dict[str, Any]
) -> None:
    path, errors, rng = tmp_path / "config.yaml", tmp_path / "errors.log", random.Random(5)
    run, ahead = write(ENDLESS, **rollout).output_dir, 0
    for kill in range(KILLS):
        made, before = write(ENDLESS, **rollout), saved(run)
        process = begin(path, resume=(run / "config.yaml").exists(), errors=errors, gloo=True)
        kill_at_random(process, lambda known=before: saved(run) > known, rng, errors)
        if saved(run):
            ahead += conserved(made)
        print(f"kill {kill + 1} after iteration {trained(run)}, {ahead} groups ahead", flush=True)
    last = trained(run) + 3
    made = write(last, **rollout)
    process = begin(path, resume=True, errors=errors, gloo=True)
    process.join()
    assert process.exitcode == 0, errors.read_text()
    assert ahead, "the checkpoints held groups that were collected ahead"
    require_complete(made, last)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_processes_stand_still_together_and_lose_nothing(write: Write, tmp_path: Path) -> None:
    path, pids, rng = tmp_path / "config.yaml", tmp_path / "pids", random.Random(2)
    pids.mkdir()
    run = write(ENDLESS).output_dir
    for _ in range(KILLS_OF_TWO):
        made, flags = write(ENDLESS), ["--gloo", *["--resume"] * (run / "config.yaml").exists()]
        with running(path, pids, 2, *flags) as process:
            victim = wait_until_killable(pids, run, rng, process)
            os.kill(victim, signal.SIGKILL)
            process.wait(timeout=90)
        if saved(run):
            conserved(made)
    last = trained(run) + 3
    made = write(last)
    with running(
        path, pids, 2, "--gloo", *["--resume"] * (run / "config.yaml").exists()
    ) as process:
        assert process.wait(timeout=900) == 0, (tmp_path / "errors.log").read_text()
    require_complete(made, last)


def require_complete(made: RunConfig, iterations: int) -> None:
    """Every visit is accounted for, and no batch is older than it may be."""
    conserved(made)
    ages = [row["rollout/staleness"] for row in rows(made)]
    over = made.rollout.over_sampling_factor > 1
    assert max(ages) <= (2 if over else 1) and 1 in ages
    if not over:
        assert visits(made.output_dir, iterations) == expected_visits(made, iterations, BATCH)
