"""`train`: a configuration, with its stages, from plan to learning curve."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrain.compose import check_inputs, load_backend
from retrain.config import ModelConfig, RunConfig, dump_config
from retrain.errors import DataError, MissingDependency
from retrain.launch import Launch
from retrain.report.curve import plot_curve
from retrain.report.progress import make_progress
from retrain.report.result import RunResult, read_result, write_result
from retrain.report.run_folder import CONFIG, CURVE, RunFolder

if TYPE_CHECKING:
    from backends.base import Plan


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One training to do.

    Attributes:
        name: The stage's name; "" for a run without stages.
        plan: What its framework will receive.
    """

    name: str
    plan: Plan


def plan_run(config: RunConfig) -> tuple[StagePlan, ...]:
    """Plan every stage of a run, so that the last one's mistakes show before the first one trains.

    Raises:
        ConfigError: A stage cannot be planned.
    """
    stages = config.stage_configs() or (("", config),)
    return tuple(
        StagePlan(name, load_backend(stage.algorithm.backend).plan(stage)) for name, stage in stages
    )


def train(config: RunConfig, *, resume: bool = False) -> RunResult:
    """Train a run: its stages in order, each from the weights of the one before.

    Args:
        config: The configuration.
        resume: Go on with the run that the output folder holds.

    Returns:
        What the last stage left.

    Raises:
        RetrainError: Bad input, or a run that failed; the message says which.
    """
    stages = plan_run(config)
    for stage in stages:
        stage.plan.require_runnable()
    for stage in stages:
        check_inputs(stage.plan.config)
    if not config.stages:
        return _train_stage(stages[0], None, resume=resume)
    with ExitStack() as stack:
        if Launch.of().first:
            root = RunFolder.create(config.output_dir, resume=resume, parts=())
            stack.enter_context(root).write_text(CONFIG, dump_config(config))
        return _train_stages(stages, config.output_dir, resume=resume)


def _train_stages(stages: tuple[StagePlan, ...], root: Path, *, resume: bool) -> RunResult:
    result: RunResult | None = None
    for stage in stages:
        begun = resume and (stage.plan.config.output_dir / CONFIG).exists()
        model_dir = None if result is None else result.model_dir
        result = _train_stage(stage, model_dir, resume=begun)
        curve = result.run_dir / CURVE
        if curve.exists() and Launch.of().first:
            shutil.copyfile(curve, root / CURVE)
        if result.interrupted:
            break
    assert result is not None
    return result


def _train_stage(stage: StagePlan, model_dir: Path | None, *, resume: bool) -> RunResult:
    config = stage.plan.config
    finished = read_result(config.output_dir) if resume else None
    if finished is not None and finished.iterations >= stage.plan.sizes["iterations"]:
        make_progress().note(
            f"{config.title}: has ended after {finished.iterations} iterations; nothing to go on "
            "with (other settings need another output_dir)"
        )
        return finished
    backend = load_backend(config.algorithm.backend)
    plan = stage.plan
    if model_dir is not None:
        plan = backend.plan(starting_from(config, model_dir))
    result = backend.train(plan, resume=resume)
    if Launch.of().first:
        _draw(result.run_dir)
        if not result.interrupted:
            write_result(result)
    return result


def _draw(run_dir: Path) -> None:
    """Draw the curve; a run that trained well does not fail for want of a picture."""
    try:
        plot_curve(run_dir)
    except (MissingDependency, DataError) as error:
        warnings.warn(f"no curve was drawn: {error}", stacklevel=2)


def starting_from(config: RunConfig, model_dir: Path) -> RunConfig:
    """The same configuration, with the model of another folder."""
    changed: Mapping[str, object] = {"name_or_path": str(model_dir.absolute()), "revision": None}
    model: ModelConfig = config.model.model_copy(update=changed)
    return config.model_copy(update={"model": model})
