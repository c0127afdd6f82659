"""`retrain eval`: how well a model does on held-out tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.cli.exits import say
from retrain.cli.options import (
    AsJson,
    ConfigFile,
    EngineName,
    EngineUrls,
    Overrides,
    engine_spec,
)
from retrain.report.attempts import SUCCESS_REWARD

if TYPE_CHECKING:
    from bridges import RolloutBridge
    from retrain.compose import Composition
    from retrain.config import RunConfig
    from retrain.engine.base import InferenceEngine
    from retrain.types import Group, Task

EXAMPLE = """\b
Examples:
  retrain eval config.yaml --checkpoint runs/calculator
  retrain eval config.yaml -n 50 --samples 8 --temperature 0.8
  retrain eval config.yaml --json | jq '.pass_at'"""


def evaluate(
    config: ConfigFile,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="A run folder, or Hugging Face weights, to play."
        ),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("-n", "--tasks", min=1, help="Only the first N tasks.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", min=1, help="Episodes of each task; wins over n_samples_per_prompt."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", min=0.0, help="Wins over evaluation.temperature."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            "--success-reward",
            help="Where the environment reports no success: the least reward of a solved task.",
        ),
    ] = SUCCESS_REWARD,
    engine: EngineName = None,
    engine_urls: EngineUrls = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Play held-out tasks: mean reward, success and pass@k.

    The tasks are those of `evaluation:`, or of prompt_source where there is none. The same seed,
    weights and sampling play the same episodes as the evaluations during training. An episode
    solves its task where info["success"] is above 0.5, or, where the environment reports none, by
    its reward. Failed episodes are counted and leave every mean.
    """
    from retrain.cli.playing import checkpoint_weights, playable, require_same_model
    from retrain.compose import compose, failure_policy, load_engine
    from retrain.config import load_config

    run = playable(load_config(config, overrides or ()))
    model_dir = None if checkpoint is None else checkpoint_weights(checkpoint)
    if model_dir is not None:
        require_same_model(run, model_dir)
    chosen = _tasks(run)[:tasks]
    composition = compose(run, model_dir=model_dir)
    spec = engine_spec(run.rollout.engine, engine, engine_urls)
    loaded = load_engine(spec, composition, model_dir=model_dir)
    try:
        bridge = _bridge(composition, loaded, samples, temperature)
        groups, seconds = _play(bridge, chosen, run.title, quiet=as_json)
    finally:
        loaded.close()
        composition.close()
    _report(run, bridge, groups, seconds, threshold, as_json=as_json)
    failure_policy(run).check(episode for group in groups for episode in group.trajectories)


def _tasks(run: RunConfig) -> tuple[Task, ...]:
    from retrain.compose import make_tasks

    if run.evaluation is None:
        say("there is no evaluation: section; playing the training tasks of prompt_source")
        return make_tasks(run)
    return make_tasks(run, run.evaluation.prompt_source)


def _bridge(
    composition: Composition,
    engine: InferenceEngine,
    samples: int | None,
    temperature: float | None,
) -> RolloutBridge:
    """A bridge that plays every episode to its end, whatever the policy of training is."""
    bridge = composition.rollouts(engine, evaluation=True)
    settings = bridge.settings
    params = settings.params
    changed = replace(
        settings,
        policy=replace(settings.policy, actions={}, max_failure_rate=1.0),
        n_samples=settings.n_samples if samples is None else samples,
        params=params if temperature is None else replace(params, temperature=temperature),
    )
    if changed.params.temperature == 0 and changed.n_samples > 1:
        say("warning: at temperature 0 the samples of a task are the same: pass@k tells nothing")
    return bridge.with_settings(changed)


def _play(
    bridge: RolloutBridge, tasks: Sequence[Task], title: str, *, quiet: bool
) -> tuple[list[Group], float]:
    from retrain.cli.eval_progress import collect_shown, make_eval_progress
    from retrain.rollout.request import GroupRequest
    from retrain.runtime import EventLoopThread

    requests = [GroupRequest(index, task, 0) for index, task in enumerate(tasks)]
    began = time.perf_counter()
    with make_eval_progress(len(tasks), title, quiet=quiet) as shown, EventLoopThread() as loop:
        groups = loop.run(collect_shown(bridge, requests, shown))
    return groups, time.perf_counter() - began


def _report(
    run: RunConfig,
    bridge: RolloutBridge,
    groups: Sequence[Group],
    seconds: float,
    threshold: float,
    *,
    as_json: bool,
) -> None:
    from retrain.report.batch_metrics import batch_metrics
    from retrain.report.evaluation import evaluate as sum_up

    evaluation = sum_up(groups, threshold=threshold)
    metrics = batch_metrics(groups, seconds=seconds)
    samples, temperature = bridge.settings.n_samples, bridge.settings.params.temperature
    if as_json:
        from retrain.cli.eval_document import eval_document

        document = {
            "experiment_name": run.experiment_name,
            "source": "prompt_source" if run.evaluation is None else "evaluation.prompt_source",
            "samples_per_task": samples,
            "temperature": temperature,
            **eval_document(evaluation),
            "metrics": metrics,
        }
        typer.echo(json.dumps(document, indent=2))
        return
    from rich.console import Console

    from retrain.cli.eval_text import print_evaluation

    title = f"{run.experiment_name}: {samples} per task at temperature {temperature:g}"
    print_evaluation(title, evaluation, metrics, Console())
