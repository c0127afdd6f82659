"""`SlimeLaunch`: one start of slime's training script, however it is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from retrain.config import RunConfig


@dataclass(frozen=True, slots=True)
class SlimeLaunch:
    """What it takes to start slime's training script and to read what it says.

    Attributes:
        entry: The script: "train.py" or "train_async.py".
        argv: Its command line, without the script.
        run_dir: The run folder, absolute; held by this process.
        config: The run's configuration.
        env: Environment variables to set for the script and its Ray workers.
        on_line: Called with each line that the script logs, without its newline.
    """

    entry: str
    argv: tuple[str, ...]
    run_dir: Path
    config: RunConfig
    env: Mapping[str, str]
    on_line: Callable[[str], None]
