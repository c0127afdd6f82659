"""`retrain`: the command line's entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from retrain import __version__
from retrain.cli.doctor import EXAMPLE as DOCTOR_EXAMPLE
from retrain.cli.doctor import doctor
from retrain.cli.env import app as env
from retrain.cli.eval import EXAMPLE as EVAL_EXAMPLE
from retrain.cli.eval import evaluate
from retrain.cli.exits import RetrainCommand, tolerate_any_encoding
from retrain.cli.export import EXAMPLE as EXPORT_EXAMPLE
from retrain.cli.export import export
from retrain.cli.init import EXAMPLE as INIT_EXAMPLE
from retrain.cli.init import init
from retrain.cli.parity import EXAMPLE as PARITY_EXAMPLE
from retrain.cli.parity import parity
from retrain.cli.plan import EXAMPLE as PLAN_EXAMPLE
from retrain.cli.plan import plan
from retrain.cli.report import EXAMPLE as REPORT_EXAMPLE
from retrain.cli.report import report
from retrain.cli.reward import EXAMPLE as REWARD_EXAMPLE
from retrain.cli.reward import reward
from retrain.cli.rollout import EXAMPLE as ROLLOUT_EXAMPLE
from retrain.cli.rollout import rollout
from retrain.cli.serve import EXAMPLE as SERVE_EXAMPLE
from retrain.cli.serve import serve
from retrain.cli.show import EXAMPLE as SHOW_EXAMPLE
from retrain.cli.show import show
from retrain.cli.train import EXAMPLE as TRAIN_EXAMPLE
from retrain.cli.train import train
from retrain.cli.view import EXAMPLE as VIEW_EXAMPLE
from retrain.cli.view import view

app = typer.Typer(
    name="retrain",
    help="Train language-model agents with reinforcement learning: one configuration, any backend.",
    epilog="Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("init", cls=RetrainCommand, epilog=INIT_EXAMPLE)(init)
app.command("train", cls=RetrainCommand, epilog=TRAIN_EXAMPLE)(train)
app.command("plan", cls=RetrainCommand, epilog=PLAN_EXAMPLE)(plan)
app.command("rollout", cls=RetrainCommand, epilog=ROLLOUT_EXAMPLE)(rollout)
app.command("parity", cls=RetrainCommand, epilog=PARITY_EXAMPLE)(parity)
app.command("eval", cls=RetrainCommand, epilog=EVAL_EXAMPLE)(evaluate)
app.command("reward", cls=RetrainCommand, epilog=REWARD_EXAMPLE)(reward)
app.command("view", cls=RetrainCommand, epilog=VIEW_EXAMPLE)(view)
app.command("report", cls=RetrainCommand, epilog=REPORT_EXAMPLE)(report)
app.command("show", cls=RetrainCommand, epilog=SHOW_EXAMPLE)(show)
app.command("serve", cls=RetrainCommand, epilog=SERVE_EXAMPLE)(serve)
app.command("export", cls=RetrainCommand, epilog=EXPORT_EXAMPLE)(export)
app.command("doctor", cls=RetrainCommand, epilog=DOCTOR_EXAMPLE)(doctor)
app.add_typer(env)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"retrain {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line and exit."""
    tolerate_any_encoding()
    app()
