"""A laptop run that is killed at some moment, and goes on for longer than it was to."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from laptop_world import MARKS, Loop, laptop_config, train, wait_until_nothing_is_left

from retrain.compose import make_buffer, make_tasks
from retrain.config import RunConfig

pytestmark = MARKS

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")

ITERATIONS = 6
FURTHER = 7


def killed(config: RunConfig, folder: Path) -> None:
    """Train in a process that ends by SIGKILL, some time after its first checkpoint."""
    document = folder / "config.json"
    document.write_text(config.model_dump_json())
    path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "retrain", "train", str(document)],
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        while not (config.output_dir / "state" / "data-0.json").exists():
            assert launcher.poll() is None, "ended before its first checkpoint"
            time.sleep(0.05)
        moment = random.uniform(0, 4)
        print(f"killed {moment:.2f} s after the first checkpoint")
        time.sleep(moment)
        assert launcher.poll() is None, "ended before it was killed"
    finally:
        launcher.kill()
        launcher.wait()


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory, demo_model: Path) -> Loop:
    folder = tmp_path_factory.mktemp("killed")
    config = laptop_config(folder / "run", demo_model, {"num_iterations": ITERATIONS})
    killed(config, folder)
    wait_until_nothing_is_left(config.output_dir)
    longer = laptop_config(folder / "run", demo_model, {"num_iterations": FURTHER})
    return train(longer, resume=True)


def test_every_visit_to_a_task_is_trained_on_exactly_once(resumed: Loop) -> None:
    buffer = make_buffer(resumed.config, tuple(make_tasks(resumed.config)))
    drawn = [(request.task.id, request.visit) for request in buffer.draw(4 * FURTHER)]
    trained = []
    for iteration in range(1, FURTHER + 1):
        groups = {row["group_index"]: row for row in resumed.samples(iteration)}
        trained += [(groups[index]["task_id"], groups[index]["visit"]) for index in sorted(groups)]
    assert trained == drawn, "as a run that nobody killed"


def test_every_iteration_has_the_rows_of_its_rollout_and_of_its_training(resumed: Loop) -> None:
    expected = list(range(1, FURTHER + 1))
    for name in ("reward/mean", "train/loss"):
        found = [row["iteration"] for row in resumed.rows if name in row]
        assert found == expected, f"{name}: one row of each iteration, in order"


def test_a_run_may_train_for_longer_than_it_was_to(resumed: Loop) -> None:
    assert resumed.result.iterations == FURTHER
    assert resumed.result.model_dir.name == str(FURTHER - 1)
    rates = {row["train/learning_rate"] for row in resumed.rows if "train/loss" in row}
    assert rates == {1e-3}, "a constant schedule stays where it was"


def test_the_trainer_and_the_engine_agree_after_the_resume(resumed: Loop) -> None:
    found = [row["train/logprob_abs_diff"] for row in resumed.rows if "train/loss" in row]
    assert max(found) < 0.02
