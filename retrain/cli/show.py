"""`retrain show`: a run's table, or one episode coloured by mask."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrain.cli.exits import say
from retrain.cli.options import AsJson
from retrain.errors import ConfigError

EXAMPLE = """\b
Examples:
  retrain show runs/calculator
  retrain show runs/calculator --iteration 12
  retrain show runs/calculator --sample 12.3
  retrain show runs/calculator --sample 12.3 | less"""

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or one stage of it.")
]


def show(
    run: RunArgument,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="ID",
            help="One episode: FILE.LINE, such as 12.3 for line 3 of samples/12.jsonl.",
            show_default=False,
        ),
    ] = None,
    iteration: Annotated[
        int | None,
        typer.Option("--iteration", metavar="N", help="The episodes of one iteration."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Shorten nothing: every row and every character.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run, an iteration or an episode in the terminal.

    Of a run its metrics and where to look; of an iteration its episodes. Tokens that are trained on
    are green, all others dim; without colours (in a pipe, with NO_COLOR) they stand in ⟦ ⟧. Of a
    run with stages the newest is shown; name RUN/stages/NAME for another.
    """
    if sample is not None and iteration is not None:
        raise ConfigError("--sample names its iteration itself; leave out --iteration")
    from retrain.cli.show_document import document
    from retrain.cli.show_episode import print_episode
    from retrain.cli.show_text import print_iteration, print_run
    from retrain.report.newest import index_until, newest_index
    from retrain.report.record import read_record
    from retrain.view.runs import find_runs

    *earlier, newest = find_runs(run)
    record = read_record(newest.folder)
    if sample is not None:
        stem = sample.rpartition(".")[0]
        index = index_until(newest.folder, lambda file: file.name.stem == stem)
    elif iteration is not None:
        index = index_until(newest.folder, lambda file: file.name.iteration < iteration)
    else:
        index = newest_index(newest.folder)
    if as_json:
        typer.echo(document(record, index, sample=sample, iteration=iteration))
    elif sample is not None:
        print_episode(index, sample, full=full)
    elif iteration is not None:
        print_iteration(index, iteration)
    else:
        print_run(record, index, earlier, full=full)
    for problem in (*record.problems, *index.problems):
        say(f"warning: {problem}")
