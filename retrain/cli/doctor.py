"""`retrain doctor`: what is installed, what can run here, and what to type for the rest."""

from __future__ import annotations

import json

import typer

from retrain.cli.exits import ExitCode
from retrain.cli.options import AsJson

EXAMPLE = """\b
Examples:
  retrain doctor
  retrain doctor --json | jq '.backends'"""


def doctor(as_json: AsJson = False) -> None:
    """Show what can run here, and the command that mends the rest.

    Exits with 1 where no backend can train.
    """
    from retrain.cli.doctor_diagnosis import diagnose

    diagnosis = diagnose()
    if as_json:
        typer.echo(json.dumps(diagnosis.document(), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.doctor_text import print_diagnosis

        print_diagnosis(diagnosis, Console())
    if not diagnosis.can_train:
        raise typer.Exit(ExitCode.RUN_FAILED)
