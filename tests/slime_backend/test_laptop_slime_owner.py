"""slime's own manager over-samples, filters and aborts, and no visit is lost or trained twice."""

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

FILTER = {"name": "check_min_reward", "min_reward": 1.5}


def configured(run: Path, model: Path, iterations: int, *, partial: bool) -> Any:
    hyper = {"num_iterations": iterations, "n_samples_per_prompt": 2, "rollout_batch_size": 2}
    rollout = {"owner": "slime", "over_sampling_factor": 3.0, "concurrency": 5, "filter": FILTER}
    return laptop_config(run, model, hyper, rollout={**rollout, "partial": partial})


def require_conserved(loop: Loop, iterations: int, *, partial: bool) -> None:
    """Every drawn visit was trained once, was dropped or given up and counted, or waits."""
    trained: Counter[tuple[str, int]] = Counter()
    for iteration in range(1, iterations + 1):
        groups = {row["group_index"]: row for row in loop.samples(iteration)}
        assert len(groups) == 2
        trained.update((row["task_id"], row["visit"]) for row in groups.values())
    assert set(trained.values()) == {1}
    path = loop.result.run_dir / "state" / f"data-{iterations - 1}.json"
    state = json.loads(path.read_text())["content"]
    waiting = {(row["task"], row["visit"]) for row in state["returned"]}
    assert len(waiting) == len(state["returned"]) and not waiting & trained.keys()
    gone = {
        name: sum(int(row.get(f"rollout/{name}", 0)) for row in loop.rows)
        for name in ("dropped", "unfinished")
    }
    assert state["buffer"]["drawn"] == trained.total() + sum(gone.values()) + len(waiting)
    left = waiting if partial else gone["unfinished"]
    assert left, "three times as many groups are begun as a batch needs"
    assert not (gone["unfinished"] if partial else waiting)


@pytest.mark.parametrize("partial", [True, False])
def test_visits_are_conserved_over_a_resume(
    tmp_path: Path, demo_model: Path, partial: bool
) -> None:
    first = train(configured(tmp_path / "run", demo_model, 3, partial=partial))
    require_conserved(first, 3, partial=partial)
    further = train(configured(tmp_path / "run", demo_model, 5, partial=partial), resume=True)
    require_conserved(further, 5, partial=partial)
