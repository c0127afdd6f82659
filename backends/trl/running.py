"""One run of the TRL backend, from an opened folder to the weights it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import Checkpoint
from backends.local.recording import STOPPING, recording, require_own_model
from backends.recorder import RunRecorder, SilentRecorder
from backends.trl.checkpoints import newest_checkpoint, require_same_shape
from backends.trl.exporting import save_final
from backends.trl.failures import training_failure
from backends.trl.grpo import train_grpo
from backends.trl.session import Session
from backends.trl.sft import prepare, train_sft
from retrain.compose import Composition, compose, make_tasks
from retrain.engine.transformers_loading import load_model
from retrain.errors import DataError, RetrainError
from retrain.launch import Launch
from retrain.model_files import load_tokenizer
from retrain.report.result import RunResult
from retrain.report.run_folder import CHECKPOINTS
from retrain.rollout.task_digest import digest_tasks
from retrain.sample import Sample
from retrain.types import Task


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
            recorder = stack.enter_context(recording(plan, composition, _checkpoint, resume=resume))
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


def _checkpoint(plan: Plan) -> Checkpoint | None:
    checkpoint = newest_checkpoint(plan.config.output_dir / CHECKPOINTS)
    if checkpoint is not None:
        require_own_model(plan, checkpoint)
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
        raise training_failure(error, session.plan) from error


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
