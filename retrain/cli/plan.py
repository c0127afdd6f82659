"""`retrain plan`: the dry run."""

from __future__ import annotations

import json

import typer

from retrain.cli.options import AsJson, Backend, ConfigFile, Overrides

EXAMPLE = """\b
Examples:
  retrain plan examples/calculator/config.yaml
  retrain plan config.yaml --set algorithm.name=rloo
  retrain plan config.yaml --json | jq '.stages[0].arguments'"""


def plan(
    config: ConfigFile,
    backend: Backend = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show what a training would do; nothing is trained or written, and no weights are loaded.

    Shown are the resolved configuration, what the framework receives, the sizes, one episode with
    its mask, and what cannot be honoured. The episode runs the real environment, chat template and
    rewards. Exits with 2 where the training could not run.
    """
    from retrain.cli.inspection import inspect_stage, require_runnable
    from retrain.config import load_config
    from retrain.training import plan_run

    run = load_config(config, overrides or (), backend)
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
