"""Laptop runs with over-sampling, a filter and half-played groups, killed at random moments."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from laptop_world import MARKS, laptop_config, wait_until_nothing_is_left
from visit_account import Account

from backends.slime.checkpoints import newest_checkpoint, read_data
from retrain.config import RunConfig

pytestmark = MARKS

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")

KILLS = int(os.environ.get("RETRAIN_KILLS", "20"))
"""How many kills the soak has."""

BATCH = 2
HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent / "trl")]
"""Where the processes of a run find `noisy_environment`."""

ROLLOUT = {
    "over_sampling_factor": 2.0,
    "filter": {
        "all_of": [
            {"name": "check_min_reward", "min_reward": 0.9},
            {"name": "check_reasonable_length", "max_tokens": 26},
        ]
    },
    "buffer_filter": "oldest_first",
    "max_refills": 40,
    "failure": {"environment": "refill"},
}
ENVIRONMENT = {
    "type": "noisy_environment:RepeatableNoisy",
    "env_specific_config": {"fail_every": 30},
}


def configured(run: Path, model: Path, iterations: int) -> RunConfig:
    hyper = {
        "num_iterations": iterations,
        "rollout_batch_size": BATCH,
        "n_samples_per_prompt": 2,
        "learning_rate": 1e-5,
    }
    return laptop_config(
        run,
        model,
        hyper,
        rollout=ROLLOUT,
        environment=ENVIRONMENT,
        cluster={"python_path": PATHS},
    )


def iterations_of(run: Path) -> int:
    """How many iterations the newest complete checkpoint holds."""
    checkpoint = newest_checkpoint(run) if run.exists() else None
    return 0 if checkpoint is None else checkpoint.iteration


def balanced(run: Path) -> Account:
    """The account of the lineage that stands; every visit is in one place of it."""
    checkpoint = newest_checkpoint(run)
    assert checkpoint is not None
    state = read_data(checkpoint.data).content
    assert not state["returned"], "slime's own manager keeps nothing here"
    account = Account.of(run, checkpoint.iteration, state["buffer"], state["rollout"])
    account.require_balanced(BATCH)
    return account


def start(config: RunConfig, folder: Path) -> subprocess.Popen[bytes]:
    """Begin or resume the run as a user does; what it says goes to `said.log`."""
    document = folder / "config.json"
    document.write_text(config.model_dump_json())
    path = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    resume = ["--resume"] if (config.output_dir / "config.yaml").exists() else []
    with (folder / "said.log").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "retrain", "train", str(document), *resume],
            env={**os.environ, "PYTHONPATH": path},
            stdout=said,
            stderr=said,
        )


def kill_at_random(
    process: subprocess.Popen[bytes],
    progress: Callable[[], bool],
    rng: random.Random,
    said: Path,
) -> None:
    """Kill a run: four times of five within seconds of its progress, else while it begins."""
    begins = rng.random() < 0.2
    try:
        while not begins and not progress():
            assert process.poll() is None, said.read_text()
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 20 if begins else 4))
        assert process.poll() is None, said.read_text()
    finally:
        process.kill()
        process.wait()


def killed(folder: Path, model: Path, kills: int) -> list[Account]:
    """Kill a run and resume it each time; accounts after those kills that are waited for.

    Every other resume begins at once, while what the killed process started still ends.
    """
    run, rng = folder / "run", random.Random(kills)
    config = configured(run, model, 1000)
    accounts = []
    for kill in range(kills):
        before = iterations_of(run)
        process = start(config, folder)
        kill_at_random(
            process, lambda known=before: iterations_of(run) > known, rng, folder / "said.log"
        )
        if kill % 2 and iterations_of(run):
            wait_until_nothing_is_left(run)
            accounts.append(balanced(run))
        done = iterations_of(run)
        print(f"kill {kill + 1} after iteration {done}, begun after {before}", flush=True)
    wait_until_nothing_is_left(run)
    last = iterations_of(run) + 2
    process = start(configured(run, model, last), folder)
    assert process.wait() == 0, (folder / "said.log").read_text()
    wait_until_nothing_is_left(run)
    assert iterations_of(run) == last
    return [*accounts, balanced(run)]


def require_trained_exactly(run: Path) -> None:
    """The trainer agrees with the engines of every process about what was sampled."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [row["train/logprob_abs_diff"] for row in rows if "train/loss" in row]
    assert max(found) < 0.02


def test_a_killed_run_conserves_its_visits(demo_model: Path, tmp_path: Path) -> None:
    killed(tmp_path, demo_model, kills=2)
    require_trained_exactly(tmp_path / "run")


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_many_kills_lose_and_repeat_nothing(demo_model: Path, tmp_path: Path) -> None:
    *after_kills, last = killed(tmp_path, demo_model, kills=KILLS)
    require_trained_exactly(tmp_path / "run")
    recorded = sum(account.recorded for account in after_kills)
    print(
        f"{KILLS} kills, with {recorded} episodes of half-played groups on disk, and every account "
        f"balanced; at last {last}"
    )
    assert last.dropped and last.failed and last.continued
