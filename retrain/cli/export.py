"""`retrain export`: a run's weights, as a folder of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrain.cli.run_stages import last_finished_stage
from retrain.errors import RunFolderError

EXAMPLE = """\b
Examples:
  retrain export runs/calculator calculator-model
  retrain export runs/calculator/stages/sft imitation-model"""


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    to: Annotated[
        Path,
        typer.Argument(metavar="TO", help="What to write; must not exist.", show_default=False),
    ],
) -> None:
    """Write a run's newest weights as a Hugging Face folder.

    Adapters are merged. A finished run gives its final weights, an unfinished one those of its
    newest checkpoint. Of a run with stages the last finished stage is exported.
    """
    from retrain.compose import load_backend
    from retrain.config import load_config
    from retrain.report.run_folder import CONFIG

    if not (run / CONFIG).is_file():
        raise RunFolderError(
            f"{run}: holds no run (no {CONFIG}); name the output_dir of a training"
        )
    stage = last_finished_stage(run)
    source = run if stage is None else stage
    backend = load_backend(load_config(source / CONFIG).algorithm.backend)
    try:
        written = backend.export(source, to)
    except RunFolderError:
        raise
    except OSError as error:
        raise RunFolderError(f"{to}: cannot be written: {error.strerror or error}") from error
    if stage is not None:
        typer.echo(f"stage: {stage.name}, the last that is finished")
    typer.echo(f"model: {written.absolute()}")
