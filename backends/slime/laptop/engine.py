"""The engine of a laptop run: `retrain serve` on this machine, in SGLang's place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.slime.laptop.processes import child
from backends.slime.model_config import find_model
from retrain.config import RunConfig
from retrain.errors import BackendFailure

LOG = "engine.log"
"""What the engine says, in the run folder."""

WEIGHTS = "weights"
"""Where slime leaves new weights for the engine, in the run folder."""


@contextmanager
def engine(config: RunConfig, run_dir: Path) -> Iterator[int]:
    """Serve the run's model on 127.0.0.1 until the run is over.

    Args:
        config: The run's configuration.
        run_dir: The run folder.

    Returns:
        The port.

    Raises:
        BackendFailure: The engine ended before it answered; its log says why.
    """
    log = run_dir / LOG
    (run_dir / WEIGHTS).mkdir(exist_ok=True)
    with (
        log.open("ab") as errors,
        child(
            "retrain",
            _serve(config, run_dir),
            folder=Path.cwd(),
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        yield _port(process, log)


def _serve(config: RunConfig, run_dir: Path) -> list[str]:
    model, hyper = config.model, config.algorithm.hyperparameters
    options = {
        "--port": 0,
        "--weights-dir": run_dir / WEIGHTS,
        "--context-length": hyper.max_context_len,
        "--max-running-requests": config.rollout.concurrency,
        "--dtype": model.torch_dtype,
        "--threads": model.threads,
        "--random-seed": config.seed,
    }
    given = [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]
    return ["serve", str(find_model(model.name_or_path, model.revision)), *given, "--json"]


def _port(process: subprocess.Popen[str], log: Path) -> int:
    """Where the engine listens, from the line that it prints once it answers."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BackendFailure(f"the engine ended with exit code {process.wait()}; see {log}")
    return int(json.loads(line)["url"].rpartition(":")[2])
