"""`retrain env`: what environments there are, and whether one of your own keeps its promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from retrain.cli.exits import ExitCode, RetrainCommand
from retrain.cli.options import AsJson, key_value

CHECK_EXAMPLE = """\b
Examples:
  retrain env check environment:GuessNumber --tasks tasks.jsonl
  retrain env check config.yaml
  retrain env check calculator --param max_turns=3 --json"""

LIST_EXAMPLE = """\b
Examples:
  retrain env list
  retrain env list --json"""

app = typer.Typer(
    name="env",
    help="List environments, or check one of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("check", cls=RetrainCommand, epilog=CHECK_EXAMPLE)
def check(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="As environment.type: a name or module:Class; or CONFIG.yaml.",
            show_default=False,
        ),
    ],
    tasks: Annotated[
        Path | None,
        typer.Option(
            "--tasks", metavar="FILE.jsonl", help="Two tasks to play; the kit has its own."
        ),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="KEY=VALUE", help="An argument of it, as YAML."),
    ] = None,
    answer: Annotated[
        str, typer.Option("--answer", help="The text with which every episode ends.")
    ] = "The answer is 4.",
    seed: Annotated[int, typer.Option("--seed", help="The seed of the episodes.")] = 7,
    live: Annotated[
        bool,
        typer.Option("--live", help="It talks to the world outside: do not compare episodes."),
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="How long one episode may take.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Play an environment with canned actions and say what is wrong.

    The actions are answers, tool calls with right and wrong arguments, broken calls, blanks, odd
    text and turns that are cut. Of several agents each is played in its turn, while the others give
    the answer. The exit code is 1 where a promise is broken.
    """
    from retrain.testing.checking import Outcome, Subject, check_environment

    subject = Subject(
        environment,
        _arguments(environment, params or []),
        None if tasks is None else str(tasks),
        answer,
        seed,
        deterministic=not live,
    )
    found = check_environment(subject, seconds=seconds)
    if as_json:
        from retrain.cli.env_document import checks_document

        typer.echo(json.dumps(checks_document(environment, found), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.env_text import print_checks

        print_checks(environment, found, Console())
    if any(one.outcome is Outcome.BROKEN for one in found):
        raise typer.Exit(ExitCode.RUN_FAILED)


@app.command("list", cls=RetrainCommand, epilog=LIST_EXAMPLE)
def list_environments(as_json: AsJson = False) -> None:
    """List the names that environment.type takes, with their arguments."""
    from retrain.environment.listing import known_environments

    known = known_environments()
    if as_json:
        from retrain.cli.env_document import environments_document

        typer.echo(json.dumps(environments_document(known), indent=2))
        return
    from rich.console import Console

    from retrain.cli.env_text import print_environments

    print_environments(known, Console())


def _arguments(environment: str, params: list[str]) -> dict[str, Any]:
    from retrain.errors import ConfigError
    from retrain.testing.checking.subject import CONFIGS

    if params and environment.endswith(CONFIGS):
        raise ConfigError("--param: the configuration gives the arguments; change them there")
    return dict(key_value("--param", text, "max_turns=3") for text in params)
