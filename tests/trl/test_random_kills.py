"""Random SIGKILLs over the modes of training; run with `pytest -m soak tests/trl`.

Each mode is killed five times at random moments and resumed each time, until it ends by itself.
Then every task visit stands exactly once in the lineage of weights that was kept.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from test_resume import start, visits

from retrain.config import dump_config
from retrain.report.metrics import read_metrics
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.sources import make_tasks

KILLS = 5
ITERATIONS = 12
MODES: dict[str, dict[str, Any]] = {
    "one step": {},
    "two steps an iteration": {"global_batch_size": 6, "trl_per_device_train_batch_size": 3},
    "inner epochs": {"trl_num_iterations": 2, "global_batch_size": 6},
    "truncated importance sampling": {"importance_correction": "tis", "save_interval": 2},
    "adapter": {"sections": {"peft": {"r": 4}}},
}


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_no_visit_is_lost_or_trained_twice(config: Any, tmp_path: Path, mode: str) -> None:
    hyper = dict(MODES[mode])
    adapter = hyper.pop("sections", None)
    made = config(**{"num_iterations": ITERATIONS, "save_interval": 1, **hyper})
    if adapter is not None:
        made = made.model_validate(
            {**made.model_dump(), "model": {**made.model.model_dump(), **adapter}}
        )
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(made))
    rng = random.Random(mode)
    kills = 0
    while kills < KILLS:
        flags = ["--resume"] if (made.output_dir / "config.yaml").exists() else []
        process = start(path, *flags)
        time.sleep(rng.uniform(6.0, 12.0))
        if process.poll() is not None:
            assert process.returncode == 0, process.communicate()[1].decode()
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    assert kills, "it was killed at least once"
    _, errors = (last := start(path, "--resume")).communicate(timeout=300)
    assert last.returncode == 0, errors.decode()
    rows = read_metrics(made.output_dir / "metrics.jsonl")
    assert [row.iteration for row in rows] == list(range(1, ITERATIONS + 1))
    tasks = make_tasks("list", made.prompt_source.source_config, tmp_path)
    expected = DataBuffer(tasks, seed=made.seed).draw(ITERATIONS * 3)
    assert visits(made.output_dir) == [(r.task.id, r.visit) for r in expected]
