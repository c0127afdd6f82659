"""`train`: a configuration, with its stages, from plan to learning curve."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrain.compose import check_inputs, find_start, load_backend
from retrain.config import ModelConfig, RunConfig, dump_config
from retrain.errors import ConfigError, RetrainError, RunFolderError
from retrain.launch import Launch
from retrain.loggers.publishing import publishing
from retrain.report.curve import plot_curve
from retrain.report.progress import make_progress
from retrain.report.result import RunResult, read_result, write_result
from retrain.report.run_folder import CONFIG, CURVE, METRICS, REPORT, RunFolder
from retrain.report.start import START, Start, read_start, write_start

if TYPE_CHECKING:
    from backends.base import Backend, Plan


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
    return tuple(StagePlan(name, _plan(name, stage)) for name, stage in stages)


def _plan(name: str, stage: RunConfig) -> Plan:
    backend = load_backend(stage.algorithm.backend)
    try:
        return backend.plan(stage)
    except ConfigError as error:
        if not name:
            raise
        raise ConfigError(f"stage {name}: {error}") from error


def train(
    config: RunConfig, *, resume: bool = False, continue_from: Path | None = None
) -> RunResult:
    """Train a run: its stages in order, each from the weights of the one before.

    Args:
        config: The configuration.
        resume: Go on with the run that the output folder holds.
        continue_from: Begin with the weights and the place in the data of another run's newest
            checkpoint, whichever backend trained it. Stages before the one of the other run's
            name are left out.

    Returns:
        What the last stage left.

    Raises:
        RetrainError: Bad input, or a run that failed; the message says which.
    """
    start = None if continue_from is None else find_start(continue_from)
    stages = _from_stage(plan_run(config), start)
    for stage in stages:
        stage.plan.require_runnable()
    for stage in stages:
        check_inputs(stage.plan.config)
    if not config.stages:
        return _train_stage(stages[0], None, resume=resume, start=start)
    with ExitStack() as stack:
        if Launch.of().first:
            root = RunFolder.create(config.output_dir, resume=resume, parts=())
            stack.enter_context(root).write_text(CONFIG, dump_config(config))
        return _train_stages(stages, config.output_dir, resume=resume, start=start)


def _from_stage(stages: tuple[StagePlan, ...], start: Start | None) -> tuple[StagePlan, ...]:
    """The stages from the one that another run's stage has reached."""
    if start is None or not stages[0].name:
        return stages
    names = [stage.name for stage in stages]
    if start.run.name not in names:
        raise ConfigError(
            f"stages: none is named {start.run.name!r}, like the run to continue from; name one "
            f"of RUN/stages/: {', '.join(names)}"
        )
    return stages[names.index(start.run.name) :]


def _train_stages(
    stages: tuple[StagePlan, ...], root: Path, *, resume: bool, start: Start | None
) -> RunResult:
    result: RunResult | None = None
    for stage in stages:
        begun = resume and (stage.plan.config.output_dir / CONFIG).exists()
        model_dir = None if result is None else result.model_dir
        result = _train_stage(stage, model_dir, resume=begun, start=start)
        start = None
        for name in (CURVE, REPORT):
            if (result.run_dir / name).exists() and Launch.of().first:
                shutil.copyfile(result.run_dir / name, root / name)
        if result.interrupted:
            break
    assert result is not None
    return result


def _train_stage(
    stage: StagePlan, model_dir: Path | None, *, resume: bool, start: Start | None
) -> RunResult:
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
    begins = read_start(config.output_dir) if resume else start
    if begins is not None:
        model_dir = begins.model_dir
    if model_dir is not None:
        plan = backend.plan(starting_from(config, model_dir))
    if not resume and Launch.of().first:
        _put_start(config.output_dir, start)
    try:
        result = _logged(plan, backend, resume=resume)
    except RunFolderError:  # the folder may be another run's
        raise
    except BaseException:
        _sum_up(config.output_dir)
        raise
    if Launch.of().first and not result.interrupted:
        write_result(result)
    _sum_up(result.run_dir)
    return result


def _logged(plan: Plan, backend: Backend, *, resume: bool) -> RunResult:
    """Train, with the configured loggers following the first process's run folder."""
    if not Launch.of().first:
        return backend.train(plan, resume=resume)
    with publishing(plan.config, _note, resume=resume):
        return backend.train(plan, resume=resume)


def _note(text: str) -> None:
    make_progress().note(text)


def _put_start(run_dir: Path, start: Start | None) -> None:
    """Put the start into the folder of a new run, where every backend reads it."""
    if start is None:
        if (run_dir / START).is_file() and not (run_dir / CONFIG).exists():
            (run_dir / START).unlink()  # of an attempt that never began
        return
    with RunFolder.create(run_dir, resume=False) as folder:
        write_start(folder.path, start)
    make_progress().note(str(start))


def _sum_up(run_dir: Path) -> None:
    """Draw the curve and write the report; a run that trained well does not fail for want of them.

    A run that has failed, or was interrupted, is summed up as far as it came.
    """
    if not Launch.of().first or not (run_dir / METRICS).exists():
        return
    from retrain.report.page.writing import write_report

    odd: tuple[type[Exception], ...] = (RetrainError, OSError, ArithmeticError, ValueError)
    odd += (LookupError, TypeError, RecursionError)
    for what, write in (("curve was drawn", plot_curve), ("report was written", write_report)):
        try:
            write(run_dir)
        except odd as error:
            warnings.warn(f"no {what}: {error}", stacklevel=2)


def starting_from(config: RunConfig, model_dir: Path) -> RunConfig:
    """The same configuration, with the model of another folder."""
    changed: Mapping[str, object] = {"name_or_path": str(model_dir.absolute()), "revision": None}
    model: ModelConfig = config.model.model_copy(update=changed)
    return config.model_copy(update={"model": model})
