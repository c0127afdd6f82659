"""slime's checkout, for the tests that run its own code in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from slime_source import named_slime

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "backends" / "slime" / "laptop" / "standins"


def slime_root() -> Path:
    """The checkout that RETRAIN_SLIME names; skips the test where slime cannot be imported."""
    named = named_slime()
    reason = _why_not(str(named))
    if reason:
        pytest.skip(f"slime cannot be imported from {named}: {reason}")
    return named


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with slime, retrain and the stand-in for sglang importable."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=_environment(os.environ["RETRAIN_SLIME"]),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def _environment(slime: str) -> dict[str, str]:
    folders = [str(ROOT), str(ROOT / "tests" / "slime_backend"), slime]
    if not _has_sglang():
        folders.append(str(STAND_INS))
    kept = {k: v for k, v in os.environ.items() if k != "RETRAIN_SLIME_CONFIG"}
    return {**kept, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}


@cache
def _has_sglang() -> bool:
    from importlib.util import find_spec

    return find_spec("sglang") is not None


@cache
def _why_not(slime: str) -> str:
    """The last line of what importing slime's rollout manager says; "" where it works."""
    found = run(["-c", "import slime.ray.rollout"], Path(slime))
    return "" if found.returncode == 0 else found.stderr.strip().rpartition("\n")[2]
