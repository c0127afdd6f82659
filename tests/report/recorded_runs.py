"""Run folders as a backend leaves them, with as hostile a sample as one can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from byte_episodes import episode, turn
from byte_text import ByteRenderer, decode

from bridges.data_format import DataFormatBridge
from retrain.errors import Boundary, EpisodeError
from retrain.report.batch_metrics import batch_metrics
from retrain.report.metrics import MetricsLog
from retrain.report.run_folder import CONFIG, RunFolder
from retrain.report.samples import write_samples
from retrain.sample import Status
from retrain.types import Group, Trajectory

BRIDGE = DataFormatBridge(ByteRenderer())  # type: ignore[arg-type]

HOSTILE = (
    "<script>fetch('//evil')</script></style><img src=x onerror=alert(1)> \"' &lt; "
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\r\b \u202eesrever\u2066 ⟦forged⟧ \x00"
)
"""HTML, escapes of a terminal, marks that turn the direction, and a forged mask."""


def played(iteration: int, *, hostile: str = HOSTILE) -> list[Trajectory]:
    """The episodes of an iteration: right, wrong, hostile, failed."""
    right = episode(turn("<call>3+4", "=7\n"), turn("7"), rewards={"exact": 1.0, "form": 0.5})
    wrong = episode(turn("8"), reward=0.0, sample_index=1, rewards={"exact": 0.0, "form": 0.0})
    forged = episode(
        turn(f"{hostile}{iteration}", hostile),
        turn("done"),
        reward=0.5,
        sample_index=2,
        task_id=hostile,
        rewards={hostile: 0.5},
    )
    error = EpisodeError(Boundary.TOOL, f"step: {hostile}", f"Traceback {hostile}")
    failed = episode(status=Status.FAILED, reward=None, sample_index=3, error=error)
    return [right, wrong, forged, failed]


def record(
    folder: Path,
    *,
    backend: str = "trl",
    iterations: int = 4,
    settings: Mapping[str, Any] | None = None,
    hostile: str = HOSTILE,
) -> Path:
    """Record a run of some iterations into `folder`."""
    with RunFolder.create(folder, resume=False) as run, MetricsLog(run.metrics) as metrics:
        run.write_text(CONFIG, _config(folder, backend, iterations, settings or {}))
        for iteration in range(1, iterations + 1):
            episodes = [
                replace(e, index=n) for n, e in enumerate(played(iteration, hostile=hostile))
            ]
            samples = [s for e in episodes for s in BRIDGE.to_samples(e, 0.25)]
            write_samples(run.samples_of(iteration), samples, decode=decode)
            group = Group(0, episodes[0].task, 0, tuple(episodes), (0.0,) * len(episodes))
            metrics.write(iteration, batch_metrics([group], seconds=2.0))
            metrics.write(iteration, {"train/loss": 1 / iteration, "train/seconds": 1.0})
    return folder


def _config(folder: Path, backend: str, iterations: int, settings: Mapping[str, Any]) -> str:
    from json import dumps

    config = {
        "experiment_name": "recorded",
        "output_dir": str(folder),
        "model": {"name_or_path": "tiny"},
        "environment": {"type": "calculator", **settings},
        "algorithm": {
            "name": "grpo",
            "backend": backend,
            "hyperparameters": {"num_iterations": iterations},
        },
    }
    return dumps(config, indent=2)
