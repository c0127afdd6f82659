from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SLIME, MEGATRON = (os.environ.get(f"RETRAIN_{name}", "") for name in ("SLIME", "MEGATRON"))
ROOT = Path(__file__).parents[2]


@pytest.mark.slime
@pytest.mark.skipif(not (SLIME and MEGATRON), reason="set RETRAIN_SLIME and RETRAIN_MEGATRON")
def test_dr_grpo_weighs_every_trained_token_alike() -> None:
    path = [str(ROOT / "backends" / "slime" / "laptop" / "site"), str(ROOT), SLIME, MEGATRON]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "plan_reduce.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["total"] == (1 + 2 + 3 + 4) / 8, "8 is the longest response; slime divides by rows"
    assert found["gradient"] == [1 / 8, 0, 1 / 8, 1 / 8, 1 / 8]
