"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path,
    typer.Argument(metavar="CONFIG.yaml", help="The configuration file.", show_default=False),
]

Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="Wins over algorithm.backend."),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Wins over the file; may stand several times (seed=7, stages.0.name=warm).",
    ),
]

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document and nothing else."),
]
