"""Which folder of a run holds its newest stage."""

from __future__ import annotations

from pathlib import Path

from retrain.errors import RunFolderError

STAGES = "stages"


def last_finished_stage(run: Path) -> Path | None:
    """The folder of the last stage that a staged run has finished; None for a run without stages.

    Raises:
        RunFolderError: No stage is finished yet.
        ConfigError: The run's config.yaml cannot be read.
    """
    from retrain.config import load_config
    from retrain.report.result import read_result
    from retrain.report.run_folder import CONFIG

    if not (run / STAGES).is_dir() or not (run / CONFIG).is_file():
        return None
    names = [stage.name for stage in load_config(run / CONFIG).stages]
    folders = [run / STAGES / name for name in names]
    finished = [folder for folder in folders if read_result(folder) is not None]
    if finished:
        return finished[-1]
    begun = [str(folder) for folder in folders if folder.is_dir()]
    raise RunFolderError(
        f"{run}: no stage is finished yet; name one that has a checkpoint: {', '.join(begun)}"
    )


def run_or_stage(run: Path) -> Path:
    """A run's own folder, or, of a run with stages, that of the last stage that has begun.

    Raises:
        ConfigError: The run's config.yaml cannot be read.
    """
    from retrain.config import load_config
    from retrain.report.run_folder import CONFIG

    if not (run / STAGES).is_dir() or not (run / CONFIG).is_file():
        return run
    folders = [run / STAGES / stage.name for stage in load_config(run / CONFIG).stages]
    begun = [folder for folder in folders if (folder / CONFIG).is_file()]
    return begun[-1] if begun else run
