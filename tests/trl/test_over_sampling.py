"""Training with over-sampling, a filter and half-played groups, on the engine itself."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_random_kills import running
from test_resume import start, trained, wait_for

from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.config import RunConfig, dump_config
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

ROLLOUT = {
    "over_sampling_factor": 1.5,
    "filter": {"name": "check_reasonable_length", "min_tokens": 8},
    "buffer_filter": "oldest_first",
}

pytestmark = pytest.mark.slow


def made(config: Any, **hyper: Any) -> RunConfig:
    return config(sections={"rollout": ROLLOUT}, save_interval=1, **hyper)


def trained_visits(run: Path, iterations: int, batch: int) -> Counter[tuple[str, int]]:
    """(task, visit) -> how often it stands in the lineage that was kept."""
    found: Counter[tuple[str, int]] = Counter()
    for iteration in range(1, iterations + 1):
        groups = {}
        for sample in read_samples(run / "samples" / f"{iteration}.jsonl"):
            episode = sample.metadata["retrain"]["trajectory"]
            groups[sample.group_index] = (episode["task"]["id"], episode["seed"]["visit"])
        assert len(groups) == batch
        found.update(groups.values())
    return found


def require_conserved(run: Path, iterations: int, batch: int = 3) -> None:
    """Each visit is trained at most once, and all that were drawn are accounted for."""
    visits = trained_visits(run, iterations, batch)
    assert set(visits.values()) == {1}
    rows = [row for row in read_metrics(run / "metrics.jsonl") if "rollout/dropped" in row.values]
    assert [row.iteration for row in rows] == list(range(1, iterations + 1))
    dropped = sum(int(row.values["rollout/dropped"] or 0) for row in rows)
    checkpoint = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None and checkpoint.step == iterations
    state = checkpoint.state["rollout"]
    finished = [(row["group"]["task"]["id"], row["group"]["visit"]) for row in state["finished"]]
    left = [*((row["task"], row["visit"]) for row in state["pending"]), *finished]
    assert len(set(left)) == len(left) and not visits.keys() & set(left)
    assert checkpoint.state["data"]["drawn"] == visits.total() + dropped + len(left)


def test_a_training_with_over_sampling_conserves_its_visits(config: Any) -> None:
    configured = made(config, num_iterations=4)
    backend = TRLBackend()
    backend.train(backend.plan(configured))
    require_conserved(configured.output_dir, 4)
    longer = made(config, num_iterations=6)
    backend.train(backend.plan(longer), resume=True)
    require_conserved(configured.output_dir, 6)


def test_two_processes_share_what_is_left(config: Any, tmp_path: Path) -> None:
    """Both fill their part of each batch; what one has left is in the one state."""
    pids = tmp_path / "pids"
    pids.mkdir()
    path = tmp_path / "config.yaml"
    for iterations in (3, 5):
        configured = made(config, num_iterations=iterations, rollout_batch_size=4)
        path.write_text(dump_config(configured))
        flags = ["--resume"] if iterations > 3 else []
        with running(path, pids, 2, *flags) as process:
            assert process.wait(timeout=400) == 0, (tmp_path / "errors.log").read_text()
        require_conserved(configured.output_dir, iterations, batch=4)


def killed(config: Any, tmp_path: Path, kills: int) -> None:
    """Kill a run at random moments, resume it each time, and look at what it trained on."""
    configured = made(config, num_iterations=1000)
    path, run = tmp_path / "config.yaml", configured.output_dir
    path.write_text(dump_config(configured))
    rng = random.Random(kills)
    for kill in range(kills):
        before = trained(run)
        process = start(path, *(["--resume"] if (run / "config.yaml").exists() else []))
        wait_for(lambda known=before: trained(run) > known, process, 240.0)
        time.sleep(rng.uniform(0.0, 3.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"kill {kill + 1} at iteration {trained(run)}")
    last = trained(run) + 2
    hyper = configured.algorithm.hyperparameters.model_copy(update={"num_iterations": last})
    algorithm = configured.algorithm.model_copy(update={"hyperparameters": hyper})
    path.write_text(dump_config(configured.model_copy(update={"algorithm": algorithm})))
    process = start(path, "--resume")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    require_conserved(run, last)


def test_a_killed_run_conserves_its_visits(config: Any, tmp_path: Path) -> None:
    killed(config, tmp_path, kills=2)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_fifty_kills_lose_and_repeat_nothing(config: Any, tmp_path: Path) -> None:
    killed(config, tmp_path, kills=50)
