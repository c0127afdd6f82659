"""`retrain rollout`: episodes only, to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from retrain.cli.options import (
    AsJson,
    ConfigFile,
    EngineName,
    EngineUrls,
    Overrides,
    engine_spec,
)
from retrain.errors import ConfigError

_TASKS = 8

EXAMPLE = """\b
Examples:
  retrain rollout examples/calculator/config.yaml -n 8
  retrain rollout config.yaml -n 2 --samples 4 --checkpoint runs/calculator/model
  retrain rollout config.yaml --engine sglang --engine-url http://127.0.0.1:30000
  retrain rollout config.yaml -n 100 --json > episodes.json
  retrain rollout config.yaml -n 16 --samples 4 --tape before.tape
  retrain rollout config.yaml --replay before.tape"""


def rollout(
    config: ConfigFile,
    tasks: Annotated[
        int | None,
        typer.Option("-n", "--tasks", min=1, help=f"Tasks to play.  [default: {_TASKS}]"),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", min=1, help="Episodes of each task.  [default: 1, or one match]"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="Hugging Face weights to play with."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Wins over seed.")] = None,
    engine: EngineName = None,
    engine_urls: EngineUrls = None,
    tape: Annotated[
        Path | None,
        typer.Option("--tape", metavar="FILE", help="Record the episodes, engine answers and all."),
    ] = None,
    replayed: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Play a tape into the present code and say where it departs from the recording.",
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Play episodes and show which tokens would be trained on.

    The tasks are the first ones that training would draw. A configuration with stages plays its
    last stage with `model:`, or with the weights of --checkpoint. A replay needs no model's
    weights: tasks and answers are the tape's. It exits with 1 where anything departs.
    """
    from retrain.cli.playing import checkpoint_weights, playable, require_same_model
    from retrain.cli.rollout_playing import play_configured
    from retrain.compose import compose, failure_policy, make_buffer, make_tasks
    from retrain.config import load_config

    run = playable(load_config(config, overrides or ()))
    run = run if seed is None else run.model_copy(update={"seed": seed})
    model_dir = None if checkpoint is None else checkpoint_weights(checkpoint)
    if model_dir is not None:
        require_same_model(run, model_dir)
    if replayed is not None:
        given = {"-n": tasks, "--samples": samples, "--tape": tape}
        _refuse_with_replay({**given, "--engine": engine, "--engine-url": engine_urls})
        from retrain.cli.rollout_replay import replay_tape

        replay_tape(compose(run, model_dir=model_dir), replayed, as_json=as_json)
        return
    requests = make_buffer(run, make_tasks(run)).draw(tasks or _TASKS)
    composition = compose(run, model_dir=model_dir)
    spec = engine_spec(run.rollout.engine, engine, engine_urls)
    groups, seconds = play_configured(
        composition,
        spec,
        requests,
        samples or composition.environment.seats,
        tape=tape,
        model_dir=model_dir,
    )
    if as_json:
        from retrain.cli.rollout_document import rollout_document

        typer.echo(json.dumps(rollout_document(composition, groups, seconds), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.rollout_text import print_groups

        print_groups(composition, groups, seconds, Console())
    failure_policy(run).check(episode for group in groups for episode in group.trajectories)


def _refuse_with_replay(given: Mapping[str, object]) -> None:
    """Refuse what a tape decides by itself.

    Raises:
        ConfigError: Such an option is given.
    """
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise ConfigError(
            f"{', '.join(wrong)}: a replay takes tasks, episodes and answers from the tape; leave "
            "it out"
        )
