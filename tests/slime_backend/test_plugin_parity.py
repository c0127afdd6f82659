"""The same engine answers give TRL and slime the same tokens, masks, logprobs and advantages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from slime_checkout import ROOT, run, slime_root

pytestmark = pytest.mark.slime

ROWS = [
    *({"id": f"t{n}", "prompt": f"question {n}"} for n in range(3)),
    {"id": "lost", "prompt": "q", "broken": "reset"},
    {"id": "half", "prompt": "q", "broken": "step"},
]


def configured(slime_config: Any, engine: str, path: Path) -> Any:
    rollout = {"engine": {"name": f"plugin_world:{engine}", "path": str(path)}}
    return slime_config(
        rows=ROWS,
        rollout_batch_size=5,
        max_tokens_per_turn=12,
        max_response_len=64,
        sections={"rollout": {**rollout, "max_failure_rate": 1.0}},
    )


def record(config: Any) -> None:
    from retrain.compose import compose, load_engine, make_buffer, make_tasks

    composition = compose(config)
    engine = load_engine(config.rollout.engine, composition)
    requests = make_buffer(config, make_tasks(config)).draw(5)
    asyncio.run(composition.rollouts(engine).collect(requests))
    engine.close()


def test_both_backends_train_on_the_same_rows(slime_config: Any, tmp_path: Path) -> None:
    slime_root()
    answers = tmp_path / "answers.json"
    record(configured(slime_config, "recording", answers))
    config = configured(slime_config, "replaying", answers)
    path = tmp_path / "config.json"
    path.write_text(config.model_dump_json())
    done = run([str(ROOT / "tests" / "slime_backend" / "both_conversions.py"), str(path)], tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["rows"] == [15, 15]
    assert result["trained"] > 100 and result["observed"] > 100
    assert len(result["advantages"]) > 3, "rewards differ, and failed episodes have 0"
    assert result["slime"] == result["trl"]
