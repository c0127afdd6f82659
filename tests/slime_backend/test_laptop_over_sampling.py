"""slime's own train.py on the CPU, with batches that our manager over-samples and carries over."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from laptop_world import MARKS, Loop, laptop_config, train

pytestmark = MARKS

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")

ROLLOUT = {
    "over_sampling_factor": 2.0,
    "filter": {"name": "check_reasonable_length", "min_tokens": 2},
}


def configured(run: Path, model: Path, iterations: int) -> Any:
    hyper = {"num_iterations": iterations, "n_samples_per_prompt": 2, "rollout_batch_size": 2}
    return laptop_config(run, model, hyper, rollout=ROLLOUT)


def state_after(loop: Loop, rollout: int) -> dict[str, Any]:
    path = loop.result.run_dir / "state" / f"data-{rollout}.json"
    content: dict[str, Any] = json.loads(path.read_text())["content"]
    return content


def require_conserved(loop: Loop, iterations: int) -> None:
    visits: Counter[tuple[str, int]] = Counter()
    for iteration in range(1, iterations + 1):
        rows = loop.samples(iteration)
        seeds = [row["metadata"]["retrain"]["trajectory"]["seed"] for row in rows]
        visits.update({(seed["task_id"], seed["visit"]) for seed in seeds})
    assert visits.total() == 2 * iterations and set(visits.values()) == {1}
    rows = [row for row in loop.rows if "rollout/carried" in row]
    assert [row["iteration"] for row in rows] == list(range(1, iterations + 1))
    dropped = sum(int(row["rollout/dropped"]) for row in rows)
    state = state_after(loop, iterations - 1)
    left = len(state["rollout"]["pending"]) + len(state["rollout"]["finished"])
    assert state["buffer"]["drawn"] == visits.total() + dropped + left
    assert max(row["train/logprob_abs_diff"] for row in loop.rows if "train/seconds" in row) < 1.0


def test_visits_are_conserved_over_a_resume(tmp_path: Path, demo_model: Path) -> None:
    first = train(configured(tmp_path / "run", demo_model, 3))
    require_conserved(first, 3)
    assert first.left == []
    further = train(configured(tmp_path / "run", demo_model, 5), resume=True)
    require_conserved(further, 5)
