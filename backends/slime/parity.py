"""What enters slime's loss when a tape is played: its own code where it can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import backends
from backends.base import Plan
from backends.slime.flags_source import ARGUMENTS, TESTED, find_source
from backends.slime.parity_process import NOT_IMPORTABLE, read_answer, write_request
from backends.slime.parity_rows import UNTRAINED_COUNTS, read_rows
from backends.slime.planning import make_plan
from retrain.errors import BackendFailure
from retrain.parity import LossReading, LossRow, Recorded

_ENVIRONMENT_VARIABLE = "RETRAIN_SLIME"
_SECONDS = 1800.0
_HERE = Path(__file__).resolve().parent


def read_loss(recorded: Recorded) -> LossReading:
    """Play a tape through slime's path, and tell what entered the loss.

    slime's own code runs in a process of its own, with its stand-in for sglang where that is not
    installed. Where slime cannot be imported, the port of its contract stands in, and says so.

    Args:
        recorded: The tape's groups, and the configuration that plays them.

    Raises:
        ConfigError: slime cannot honour the configuration.
        BackendFailure: slime's code failed.
    """
    plan = make_plan(recorded.planned)
    plan.require_runnable()
    root = _slime_root(recorded)
    rows, reason = (None, "") if root is None else _real_rows(recorded, plan, root)
    source = "slime's own conversion and schedule"
    notes = [f"slime cannot be imported from {root}: {reason}"] if reason else []
    if rows is None:
        rows = read_rows(recorded, plan.arguments, _copies(plan), real=False)
        source = f"port of slime {TESTED}'s contract"
        notes = notes or [f"slime is not on this machine; {_ENVIRONMENT_VARIABLE} may name it"]
    return LossReading(
        backend="slime",
        source=source,
        rows=tuple(rows),
        aggregation=_aggregation(plan),
        constant=recorded.config.algorithm.hyperparameters.max_response_len,
        untrained_counts=UNTRAINED_COUNTS,
        notes=tuple(notes),
    )


def _copies(plan: Plan) -> int:
    return plan.sizes["model_copies"]


def _aggregation(plan: Plan) -> str:
    if plan.arguments.get("calculate_per_token_loss"):
        return "token"
    constant = plan.arguments.get("custom_pg_loss_reducer_function_path") is not None
    return "constant" if constant else "sequence"


def _slime_root(recorded: Recorded) -> Path | None:
    """Where slime is: what RETRAIN_SLIME names, else what the configuration or Python finds."""
    named = os.environ.get(_ENVIRONMENT_VARIABLE)
    if named and (Path(named) / ARGUMENTS).is_file():
        return Path(named).absolute()
    source = find_source(recorded.config)
    return None if source is None else source.root.absolute()


def _real_rows(recorded: Recorded, plan: Plan, root: Path) -> tuple[list[LossRow] | None, str]:
    """The rows of slime's own code, or None and why it cannot be imported."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_request(folder, recorded, plan.arguments, _copies(plan))
        done = subprocess.run(
            [sys.executable, "-m", "backends.slime.parity_process", name],
            env={**os.environ, "PYTHONPATH": _python_path(root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        last = done.stderr.strip().rpartition("\n")[2]
        if done.returncode == NOT_IMPORTABLE:
            return None, last
        if done.returncode:
            raise BackendFailure(f"slime's conversion failed: {last}\n{done.stderr}")
        return read_answer(folder), ""


def _python_path(root: Path) -> str:
    """retrain, slime, what this process imports from, and last what stands in for sglang."""
    own = Path(backends.__file__).resolve().parent.parent
    folders = [str(own), str(root), *(folder for folder in sys.path if folder)]
    if find_spec("sglang") is None:
        folders.append(str(_HERE / "laptop" / "standins"))
    return os.pathsep.join(dict.fromkeys(folders))
