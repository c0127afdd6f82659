"""One run of the TRL backend, from an opened folder to the weights it leaves."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.recorder import RunRecorder, SilentRecorder
from backends.trl.adapters import require_same_adapter
from backends.trl.checkpoints import (
    Checkpoint,
    newest_checkpoint,
    require_same_model,
    require_same_shape,
)
from backends.trl.exporting import save_final, set_aside
from backends.trl.failures import training_failure
from backends.trl.grpo import train_grpo
from backends.trl.session import Session
from backends.trl.sft import prepare, train_sft
from retrain.compose import Composition, compose, make_tasks
from retrain.config import dump_config, redact
from retrain.engine.transformers_loading import load_model
from retrain.errors import DataError, RetrainError
from retrain.launch import Launch
from retrain.model_files import load_tokenizer
from retrain.report.progress import make_progress
from retrain.report.result import RunResult
from retrain.report.run_folder import CHECKPOINTS, CONFIG, EVENTS, PLAN, RunFolder
from retrain.rollout.task_digest import digest_tasks
from retrain.sample import Sample
from retrain.types import Task

BEGINNING = -1
"""Before iteration 0, which is the evaluation before training."""

STOPPING = "stopping after this iteration, with a checkpoint; press Ctrl-C again to stop now"


def run_plan(plan: Plan, *, resume: bool, launch: Launch) -> RunResult:
    """Train a plan to its end, or until the user stops it.

    Everything that can be wrong with the input is read before the run folder is made.

    Args:
        plan: What to run.
        resume: Go on from the newest complete checkpoint.
        launch: Which process this is; the first one writes the run folder.
    """
    config = plan.config
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    _join(launch, plan.arguments)
    composition = compose(config)
    tasks = make_tasks(config)
    _require_same_everywhere(tasks, launch)
    tokenizer = load_tokenizer(config)
    unpadded = tokenizer.pad_token_id is None
    if unpadded:
        tokenizer.pad_token_id = composition.renderer.pad_token_id
    demonstrations = _demonstrations(plan, composition, tasks)
    model = load_model(config.model)
    with ExitStack() as stack:
        stack.callback(composition.close)
        recorder: RunRecorder | SilentRecorder = SilentRecorder()
        interrupt = stack.enter_context(GracefulInterrupt(lambda: recorder.note(STOPPING)))
        if launch.first:
            recorder = stack.enter_context(_recording(plan, composition, resume=resume))
        if unpadded:
            recorder.note(f"the tokenizer has no padding token; {tokenizer.pad_token!r} pads rows")
        launch.barrier()
        checkpoint = _checkpoint(plan) if resume else None
        session = Session(
            plan, composition, model, tokenizer, recorder, interrupt, checkpoint, launch
        )
        trainer = _train(session, tasks, demonstrations)
        for line in composition.rewards.calculator.summaries():
            recorder.note(line)
    result = _result(plan, trainer, recorder)
    launch.barrier()
    return result


def _join(launch: Launch, arguments: Mapping[str, Any]) -> None:
    """Connect the processes, as the trainer itself will find them."""
    if launch.processes > 1:
        from accelerate import PartialState

        given = arguments.get("ddp_timeout")
        timeout = {} if given is None else {"timeout": timedelta(seconds=given)}
        PartialState(cpu=not torch.cuda.is_available(), **timeout)


def _require_same_everywhere(tasks: Sequence[Task], launch: Launch) -> None:
    """Refuse processes that have read other tasks: together they play one order of them.

    Raises:
        DataError: On every process, naming the first rank that differs.
    """
    if launch.processes == 1:
        return
    ordered = sorted(tasks, key=lambda task: task.id)
    found = launch.gather([digest_tasks(ordered)["hash"]])
    differing = [rank for rank, value in enumerate(found) if value != found[0]]
    if differing:
        raise DataError(
            f"prompt_source: rank {differing[0]} has read other tasks than rank 0; every process "
            "must find the same files, and an environment make the same tasks in each"
        )


def _demonstrations(
    plan: Plan, composition: Composition, tasks: Sequence[Task]
) -> list[Sample] | None:
    if plan.config.algorithm.name != "sft":
        return None
    return asyncio.run(prepare(composition, tasks))


@contextmanager
def _recording(plan: Plan, composition: Composition, *, resume: bool) -> Iterator[RunRecorder]:
    """Open the run folder, and go back to its checkpoint."""
    config = plan.config
    with RunFolder.create(config.output_dir, resume=resume) as folder:
        checkpoint = _checkpoint(plan) if resume else None
        done = BEGINNING if checkpoint is None else checkpoint.step // _steps(plan)
        if resume:
            folder.rewind(done)
            set_aside(config.output_dir)
        folder.write_text(CONFIG, dump_config(config))
        folder.write_text(PLAN, json.dumps(redact(plan.arguments), indent=2) + "\n")
        recorder = RunRecorder(folder, make_progress(), composition.renderer.decode)
        try:
            recorder.progress.start(plan.sizes["iterations"], config.title, completed=max(done, 0))
            yield recorder
        except (RuntimeError, OSError, ValueError):
            folder.log_event(traceback.format_exc())
            raise
        finally:
            recorder.progress.stop()
            recorder.close()


def _checkpoint(plan: Plan) -> Checkpoint | None:
    checkpoint = newest_checkpoint(plan.config.output_dir / CHECKPOINTS)
    if checkpoint is not None:
        require_same_model(plan.config, checkpoint)
        require_same_adapter(plan.config.model.peft, checkpoint.path)
        require_same_shape(plan, checkpoint)
    return checkpoint


def _train(session: Session, tasks: Sequence[Task], demonstrations: list[Sample] | None) -> Any:
    try:
        if demonstrations is not None:
            return train_sft(session, tasks, demonstrations)
        return train_grpo(session, tasks)
    except RetrainError:
        raise
    except Exception as error:
        events = session.config.output_dir / EVENTS
        raise training_failure(error, session.plan, events) from error


def _result(plan: Plan, trainer: Any, recorder: RunRecorder | SilentRecorder) -> RunResult:
    run: Path = plan.config.output_dir
    iterations = trainer.state.global_step // _steps(plan)
    return RunResult(
        run_dir=run,
        model_dir=save_final(trainer, plan.config.model, run),
        iterations=iterations,
        interrupted=iterations < plan.sizes["iterations"],
        metrics=dict(recorder.latest),
    )


def _steps(plan: Plan) -> int:
    return plan.sizes["optimizer_steps_per_iteration"]
