"""`retrain report`: a page about a run, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrain.cli.exits import say
from retrain.errors import ConfigError

EXAMPLE = """\b
Examples:
  retrain report runs/calculator
  retrain report runs/trl runs/slime --to compared.html"""

COMPARED = Path("report.html")
"""The page about several runs, in the working directory."""


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders, or stages of them.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Where to write it; else report.html in the run folder, or here for several runs.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a page about a run, or about several side by side.

    It holds curves, episodes, failures, timings, versions and settings, and needs no other file.
    Every run has its page since it ended; this writes it again, or compares runs in one page. Of a
    run with stages the newest stage is taken; name RUN/stages/NAME for another.
    """
    from retrain.report.page.writing import write_page
    from retrain.report.record import read_record
    from retrain.report.run_folder import REPORT
    from retrain.view.runs import find_runs

    folders = [find_runs(run)[-1].folder for run in runs]
    repeated = next((run for at, run in enumerate(runs) if folders[at] in folders[:at]), None)
    if repeated is not None:
        raise ConfigError(f"{repeated} is named twice; name different runs")
    records = [read_record(folder) for folder in folders]
    beside = folders[0] / REPORT if len(folders) == 1 else COMPARED
    page = write_page(records, to or beside)
    for record in records:
        for problem in record.problems:
            say(f"warning: {problem}")
    typer.echo(str(page))
