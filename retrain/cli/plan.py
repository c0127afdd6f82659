"""`retrain plan`: the dry run."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.cli.options import AsJson, Backend, ConfigFile, Overrides

if TYPE_CHECKING:
    from retrain.comparison import Comparison
    from retrain.config import RunConfig

EXAMPLE = """\b
Examples:
  retrain plan examples/calculator/config.yaml
  retrain plan config.yaml --set algorithm.name=rloo
  retrain plan config.yaml --compare
  retrain plan config.yaml --json | jq '.stages[0].arguments'"""


_WIDTH = 160
"""Columns of a comparison where no terminal says how many there are: three backends fit."""


def plan(
    config: ConfigFile,
    backend: Backend = None,
    overrides: Overrides = None,
    side_by_side: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Show what every backend's framework gets for every key, side by side.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a training would do, without training.

    Nothing is written, and no weights are loaded. Shown are the resolved configuration, what the
    framework receives, the sizes, one episode with its mask, and what cannot be honoured. The
    episode runs the real environment, chat template and rewards. Exits with 2 where the training
    could not run.

    With --compare: what each backend's framework is told for every key, what it cannot honour, and
    the defaults that it does not share; no framework but the chosen one need be installed.
    """
    from retrain.cli.inspection import inspect_stage, require_runnable
    from retrain.config import load_config
    from retrain.training import plan_run

    run = load_config(config, overrides or (), backend)
    if side_by_side:
        _compare(run, as_json=as_json)
        return
    inspections = tuple(inspect_stage(stage) for stage in plan_run(run))
    if as_json:
        from retrain.cli.plan_document import plan_document

        typer.echo(json.dumps(plan_document(run.experiment_name, inspections), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.plan_text import print_inspection

        console = Console()
        for found in inspections:
            print_inspection(found, console)
    require_runnable(inspections)


def _compare(run: RunConfig, *, as_json: bool) -> None:
    """Put the known backends side by side, the chosen one first."""
    from retrain.comparison import compare
    from retrain.compose import backend_names

    found: list[Comparison] = []
    for name, stage in run.stage_configs() or (("", run),):
        chosen = stage.algorithm.backend
        others = [known for known in backend_names() if known != chosen]
        found.append(compare(stage, (chosen, *others), name))
    if as_json:
        from retrain.cli.compare_document import compare_document

        typer.echo(json.dumps(compare_document(run.experiment_name, found), indent=2))
        return
    from rich.console import Console

    from retrain.cli.compare_text import print_comparison

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if known else _WIDTH)
    for comparison in found:
        print_comparison(comparison, console)
