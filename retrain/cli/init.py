"""`retrain init`: a project to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = """\b
Examples:
  retrain init my_tool
  retrain init my_game --like game"""


def init(
    folder: Annotated[
        Path,
        typer.Argument(metavar="NAME", help="The folder to make.", show_default=False),
    ],
    like: Annotated[
        str, typer.Option("--like", metavar="KIND", help="tool, game, mcp or single-turn.")
    ] = "tool",
) -> None:
    """Make a project to start from.

    It has an environment, a reward, a configuration, a test and a README. It trains at once, on a
    small model that its prepare.py makes: no GPU and no download.
    """
    from retrain.scaffold import make_project

    for path in make_project(folder, like):
        typer.echo(folder / path)
    typer.echo(
        f"\nNext:\n  cd {folder}\n  python prepare.py\n  retrain train config.yaml\n  pytest"
    )
