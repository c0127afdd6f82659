"""`retrain train`: a configuration, trained from beginning to end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.cli.exits import ExitCode, say
from retrain.cli.options import Backend, ConfigFile, Overrides
from retrain.cli.run_stages import run_or_stage
from retrain.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.config import RunConfig
    from retrain.report.result import RunResult
    from retrain.report.summary import RunSummary

EXAMPLE = """\b
Examples:
  retrain train examples/calculator/config.yaml
  retrain train config.yaml --set seed=7 --set output_dir=runs/seed7
  retrain train config.yaml --resume
  retrain train config.yaml --backend slime --continue-from runs/trl --set output_dir=runs/slime"""


def train(
    config: ConfigFile,
    backend: Backend = None,
    overrides: Overrides = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that output_dir holds.")
    ] = False,
    continue_from: Annotated[
        Path | None,
        typer.Option(
            "--continue-from",
            metavar="RUN",
            help="Begin with the weights and the place in the data of another run's newest "
            "checkpoint, of any backend; the optimizer begins again.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a model.

    Progress goes to standard error, the final table to standard output. Ctrl-C stops after the
    iteration, with a checkpoint; a second Ctrl-C stops now.
    """
    from rich.console import Console

    from retrain.config import load_config
    from retrain.launch import Launch
    from retrain.training import train as train_run

    run = load_config(config, overrides or (), backend)
    if resume and continue_from is not None:
        raise ConfigError(
            "--continue-from begins a new run and --resume goes on with one; a run that was begun "
            "with --continue-from is resumed with --resume alone"
        )
    result = train_run(
        run,
        resume=resume,
        continue_from=None if continue_from is None else run_or_stage(continue_from),
    )
    if not Launch.of().first:
        return
    _report(run, result, Console())
    _next_step(run, result, config, overrides or ())
    if result.interrupted:
        chosen = [] if backend is None else ["--backend", backend]
        command = _command("train", config, overrides or (), *chosen, "--resume")
        say(f"interrupted after iteration {result.iterations}; to go on: {command}")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _report(run: RunConfig, result: RunResult, console: Console) -> None:
    from retrain.report.summary import print_summary

    for title, run_dir in _finished(run, result):
        summary = _summary(title, run_dir)
        if summary is not None:
            print_summary(summary, console)
            typer.echo()
    typer.echo(f"model: {result.model_dir.absolute()}")
    typer.echo(f"samples: {result.run_dir.absolute() / 'samples'}")
    page = result.run_dir.absolute() / "report.html"
    if page.exists():
        typer.echo(f"report: {page}")


def _next_step(run: RunConfig, result: RunResult, config: Path, overrides: Sequence[str]) -> None:
    typer.echo(f"look at it: {shlex.join(['retrain', 'view', str(run.output_dir)])}")
    options = ["--checkpoint", str(result.model_dir.absolute()), "-n", "4"]
    typer.echo(f"see it play: {_command('rollout', config, overrides, *options)}")


def _finished(run: RunConfig, result: RunResult) -> list[tuple[str, Path]]:
    """Title and folder of the stages that played episodes; of the last one where none did."""
    found: list[tuple[str, Path]] = []
    for name, stage in run.stage_configs():
        title, run_dir = f"{run.experiment_name}, stage {name}", stage.output_dir.absolute()
        last = run_dir == result.run_dir.absolute()
        if stage.algorithm.name != "sft" or (last and not found):
            found.append((title, run_dir))
        if last:
            return found
    return [(run.experiment_name, result.run_dir)]


def _summary(title: str, run_dir: Path) -> RunSummary | None:
    """What a run came to; None where it stopped before its first row."""
    from retrain.report.metrics import read_metrics
    from retrain.report.run_folder import CONFIG, CURVE, METRICS
    from retrain.report.summary import summarise

    rows = read_metrics(run_dir / METRICS) if (run_dir / METRICS).exists() else []
    if not rows:
        return None
    began = (run_dir / CONFIG).stat().st_mtime
    curve = run_dir / CURVE
    return summarise(
        rows,
        title=title,
        seconds=max(0.0, rows[-1].time - began),
        curve=curve if curve.exists() else None,
    )


def _command(name: str, config: Path, overrides: Sequence[str], *options: str) -> str:
    """A command line to copy, with the same overrides."""
    laid_over = [word for override in overrides for word in ("--set", override)]
    return shlex.join(["retrain", name, str(config), *laid_over, *options])
