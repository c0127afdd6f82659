"""`retrain parity`: the same episodes through every backend, up to the loss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrain.cli.exits import ExitCode, say
from retrain.cli.options import (
    AsJson,
    ConfigFile,
    EngineName,
    EngineUrls,
    Overrides,
    engine_spec,
)
from retrain.errors import ConfigError, MissingDependency, RetrainError

if TYPE_CHECKING:
    from retrain.compose import Composition
    from retrain.config import RunConfig
    from retrain.parity.recorded import Recorded
    from retrain.parity.report import BackendOutcome, ParityReport
    from retrain.parity.rows import LossRow

EXAMPLE = """\b
Examples:
  retrain parity config.yaml
  retrain parity config.yaml --tape before.tape
  retrain parity config.yaml --tape before.tape --backend trl --json | jq .samples"""


def parity(
    config: ConfigFile,
    tape: Annotated[
        Path | None,
        typer.Option("--tape", metavar="FILE", help="Play this tape instead of a new recording."),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(
            "-n", "--tasks", min=1, help="Tasks to record.  [default: rollout_batch_size]"
        ),
    ] = None,
    backends: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="Only this one; may be repeated."),
    ] = None,
    engine: EngineName = None,
    engine_urls: EngineUrls = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the backends train on, row by row.

    A tape, the same engine answers for all, is played through each backend's own path up to its
    loss: tokens, masks, logprobs, rewards and advantages must be the tape's, sample by sample, and
    the weights of the tokens in the loss are compared. Exits with 1 where anything differs that no
    framework's own rule of aggregation explains, where nothing can be read, and where the
    configured backend, or one that --backend names, refuses the configuration. Another one that
    refuses it is shown.
    """
    from retrain.cli.playing import playable
    from retrain.compose import compose, load_backend
    from retrain.config import load_config
    from retrain.parity.recorded import read_recorded

    if tape is not None and (tasks or engine or engine_urls):
        raise ConfigError("--tape: holds tasks and answers; leave out -n and --engine")
    for name in backends or ():
        load_backend(name)
    run = playable(load_config(config, overrides or ()))
    composition = compose(run)
    spec = engine_spec(run.rollout.engine, engine, engine_urls)
    with _tape(composition, tape, tasks, spec) as at:
        recorded = read_recorded(run, at)
        _warn(at, run, recorded)
        report = _compare(composition, recorded, backends)
    if as_json:
        from retrain.cli.parity_document import parity_document

        typer.echo(json.dumps(parity_document(report, recorded), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.parity_text import print_parity

        print_parity(report, Console())
    if not report.equal:
        raise typer.Exit(ExitCode.RUN_FAILED)


@contextmanager
def _tape(
    composition: Composition, given: Path | None, tasks: int | None, spec: str | Mapping[str, Any]
) -> Iterator[Path]:
    """The tape that is given, or a new one that is gone afterwards."""
    if given is not None:
        yield given
        return
    from retrain.cli.rollout_playing import play_configured
    from retrain.compose import make_buffer, make_tasks

    config = composition.config
    hyper = config.algorithm.hyperparameters
    requests = make_buffer(config, make_tasks(config)).draw(tasks or hyper.rollout_batch_size)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "parity.tape"
        play_configured(composition, spec, requests, hyper.n_samples_per_prompt, tape=path)
        yield path


def _warn(tape: Path, run: RunConfig, recorded: Recorded) -> None:
    """Say what is another setting than the tape's, and what the comparison changes."""
    from retrain.rollout.tape import Tape
    from retrain.rollout.tape.header import settings_that_differ

    with Tape(tape) as opened:
        for difference in settings_that_differ(opened.header, run):
            say(f"warning: {difference}")
    for note in recorded.notes:
        say(f"note: {note}")


def _compare(
    composition: Composition, recorded: Recorded, backends: list[str] | None
) -> ParityReport:
    from retrain.compose import backend_names
    from retrain.parity.report import expected_rows, report_of

    rows = expected_rows(
        slot
        for group in recorded.settled(composition.rewards.settle)
        for slot in composition.data_format.group_samples(group)
    )
    required = backends or [composition.config.algorithm.backend]
    names = backends or backend_names()
    outcomes = [_outcome(name, composition, recorded, rows) for name in names]
    return report_of(rows, outcomes, required)


def _outcome(
    name: str, composition: Composition, recorded: Recorded, rows: Sequence[LossRow]
) -> BackendOutcome:
    from retrain.compose import read_loss
    from retrain.parity.report import BackendOutcome, outcome_of

    try:
        reading = read_loss(name, recorded)
    except MissingDependency as error:
        return BackendOutcome(name, absent=str(error))
    except ConfigError as error:
        return BackendOutcome(name, refused=str(error))
    except RetrainError as error:
        return BackendOutcome(name, failed=str(error))
    except ImportError as error:
        return BackendOutcome(name, failed=f"its framework cannot be imported: {error}")
    return outcome_of(rows, reading, composition.renderer.decode)
