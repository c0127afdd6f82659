"""`retrain rollout`: episodes only, to look at."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.cli.options import (
    AsJson,
    ConfigFile,
    EngineName,
    EngineUrls,
    Overrides,
    engine_spec,
)

if TYPE_CHECKING:
    from retrain.compose import Composition
    from retrain.engine.base import InferenceEngine
    from retrain.rollout.request import GroupRequest
    from retrain.types import Group

EXAMPLE = """\b
Examples:
  retrain rollout examples/calculator/config.yaml -n 8
  retrain rollout config.yaml -n 2 --samples 4 --checkpoint runs/calculator/model
  retrain rollout config.yaml --engine sglang --engine-url http://127.0.0.1:30000
  retrain rollout config.yaml -n 100 --json > episodes.json"""


def rollout(
    config: ConfigFile,
    tasks: Annotated[int, typer.Option("-n", "--tasks", min=1, help="Tasks to play.")] = 8,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Episodes of each task.")] = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="Hugging Face weights to play with."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Wins over seed.")] = None,
    engine: EngineName = None,
    engine_urls: EngineUrls = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Play episodes and show them, with the tokens that training would train on.

    The tasks are the first ones that training would draw. A configuration with stages plays its
    last stage with `model:`, or with the weights of --checkpoint.
    """
    from retrain.cli.playing import checkpoint_weights, playable, require_same_model
    from retrain.compose import compose, failure_policy, load_engine, make_buffer, make_tasks
    from retrain.config import load_config

    run = playable(load_config(config, overrides or ()))
    run = run if seed is None else run.model_copy(update={"seed": seed})
    model_dir = None if checkpoint is None else checkpoint_weights(checkpoint)
    if model_dir is not None:
        require_same_model(run, model_dir)
    requests = make_buffer(run, make_tasks(run)).draw(tasks)
    composition = compose(run, model_dir=model_dir)
    spec = engine_spec(run.rollout.engine, engine, engine_urls)
    loaded = load_engine(spec, composition, model_dir=model_dir)
    try:
        groups, seconds = _play(composition, loaded, requests, samples)
    finally:
        loaded.close()
    if as_json:
        from retrain.cli.rollout_document import rollout_document

        typer.echo(json.dumps(rollout_document(composition, groups, seconds), indent=2))
    else:
        from rich.console import Console

        from retrain.cli.rollout_text import print_groups

        print_groups(composition, groups, seconds, Console())
    failure_policy(run).check(episode for group in groups for episode in group.trajectories)


def _play(
    composition: Composition,
    engine: InferenceEngine,
    requests: Sequence[GroupRequest],
    samples: int,
) -> tuple[list[Group], float]:
    """Play groups, failed episodes included, whatever the policy of training is."""
    from retrain.runtime import EventLoopThread

    bridge = composition.rollouts(engine)
    settings = bridge.settings
    policy = replace(settings.policy, actions={}, max_failure_rate=1.0)
    shown = bridge.with_settings(replace(settings, n_samples=samples, policy=policy))
    began = time.perf_counter()
    with EventLoopThread() as loop:
        groups = loop.run(shown.collect(requests))
    return groups, time.perf_counter() - began
