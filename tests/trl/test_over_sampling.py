"""Training with over-sampling, a filter and half-played groups, on the engine itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from test_random_kills import running
from test_resume import trained
from visit_account import Account
from warm_runs import kill_at_random, start

from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.config import RunConfig, dump_config

ROLLOUT = {
    "over_sampling_factor": 1.5,
    "filter": {
        "all_of": [
            {"name": "check_min_reward", "min_reward": 0.9},
            {"name": "check_reasonable_length", "max_tokens": 26},
        ]
    },
    "buffer_filter": "oldest_first",
}
REFILL = {"failure": {"environment": "refill"}}
"""Another task in place of one that failed; on one process only."""

ENVIRONMENT = {
    "type": "noisy_environment:RepeatableNoisy",
    "env_specific_config": {"fail_every": 60},
}

pytestmark = pytest.mark.slow


def made(config: Any, *, refill: bool = True, **hyper: Any) -> RunConfig:
    rollout = ROLLOUT | (REFILL if refill else {})
    sections = {"rollout": rollout, "environment": ENVIRONMENT}
    made: RunConfig = config(sections=sections, save_interval=1, **{"learning_rate": 1e-5, **hyper})
    return made


def account_of(run: Path) -> Account:
    checkpoint = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None
    state = checkpoint.state
    return Account.of(run, checkpoint.step, state["data"], state["rollout"])


def require_conserved(run: Path, iterations: int, batch: int = 3) -> Account:
    account = account_of(run)
    assert account.iterations == iterations
    account.require_balanced(batch)
    return account


def test_a_training_with_over_sampling_conserves_its_visits(config: Any) -> None:
    configured = made(config, num_iterations=4)
    backend = TRLBackend()
    backend.train(backend.plan(configured))
    require_conserved(configured.output_dir, 4)
    longer = made(config, num_iterations=6)
    backend.train(backend.plan(longer), resume=True)
    account = require_conserved(configured.output_dir, 6)
    assert account.dropped.total(), "the filter has something to drop"


def test_two_processes_share_what_is_left(config: Any, tmp_path: Path) -> None:
    """Both fill their part of each batch; what one has left is in the one state."""
    pids = tmp_path / "pids"
    pids.mkdir()
    path = tmp_path / "config.yaml"
    for iterations in (3, 5):
        configured = made(config, refill=False, num_iterations=iterations, rollout_batch_size=4)
        path.write_text(dump_config(configured))
        flags = ["--resume"] if iterations > 3 else []
        with running(path, pids, 2, *flags) as process:
            assert process.wait(timeout=400) == 0, (tmp_path / "errors.log").read_text()
        require_conserved(configured.output_dir, iterations, batch=4)


def killed(config: Any, tmp_path: Path, kills: int) -> list[Account]:
    """Kill a run at random moments and resume it each time; its account after each, and at last."""
    configured = made(config, num_iterations=1000)
    path, errors, run = tmp_path / "config.yaml", tmp_path / "errors.log", configured.output_dir
    path.write_text(dump_config(configured))
    rng = random.Random(kills)
    accounts = []
    for kill in range(kills):
        before = trained(run)
        process = start(path, resume=(run / "config.yaml").exists(), errors=errors)
        kill_at_random(process, lambda known=before: trained(run) > known, rng, errors)
        if newest_checkpoint(run / "checkpoints") is not None:
            accounts.append(account_of(run))
            accounts[-1].require_balanced(batch=3)
        print(f"kill {kill + 1} after iteration {trained(run)}, begun after {before}", flush=True)
    last = trained(run) + 2
    path.write_text(dump_config(made(config, num_iterations=last)))
    process = start(path, resume=True, errors=errors)
    process.join()
    assert process.exitcode == 0, errors.read_text()
    return [*accounts, require_conserved(run, last)]


def test_a_killed_run_conserves_its_visits(config: Any, tmp_path: Path) -> None:
    killed(config, tmp_path, kills=3)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_fifty_kills_lose_and_repeat_nothing(config: Any, tmp_path: Path) -> None:
    *after_kills, last = killed(config, tmp_path, kills=50)
    recorded = sum(account.recorded for account in after_kills)
    print(
        f"50 kills, with {recorded} episodes of half-played groups on disk, and every account "
        f"balanced; at last {last}"
    )
    assert len(last.dropped) == 2 and last.failed and last.continued
