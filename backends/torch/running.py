"""One run of the torch backend, from an opened folder to the weights it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import Checkpoint, run_shape
from backends.local.exporting import ADAPTER, MODEL, merge_adapter, writing
from backends.local.recording import STOPPING, recording, require_own_model
from backends.recorder import RunRecorder
from backends.torch.assembling import make_training_backend
from backends.torch.checkpoint_state import newest_checkpoint
from backends.torch.passes import LossNotFinite
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.training import Run, train_rl, train_sft
from bridges.demonstrations import demonstration_samples
from retrain.compose import Composition, compose, make_tasks
from retrain.engine.transformers_memory import is_out_of_memory
from retrain.errors import BackendFailure, RetrainError
from retrain.model_files import load_tokenizer
from retrain.report.result import RunResult
from retrain.report.run_folder import CHECKPOINTS, EVENTS
from retrain.report.samples import write_samples
from retrain.rollout.state_file import require_same_shape
from retrain.runtime import EventLoopThread
from retrain.sample import Sample
from retrain.types import Task

FAILED = "failed"
"""Folder of a run that holds the samples that a loss of NaN came from."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is read and loaded before the run folder is made."""

    composition: Composition
    tasks: Sequence[Task]
    backend: PyTorchTrainingBackend
    demonstrations: Sequence[Sample] | None


def run_plan(plan: Plan, *, resume: bool) -> RunResult:
    """Train a plan to its end, or until the user stops it.

    Everything that can be wrong with the input is read before the run folder is made.

    Args:
        plan: What to run.
        resume: Go on from the newest complete checkpoint.
    """
    config = plan.config
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    torch.manual_seed(config.seed)
    with ExitStack() as stack:
        loop = stack.enter_context(EventLoopThread())
        parts = _prepare(plan, loop, stack)
        recorder = stack.enter_context(
            recording(plan, parts.composition, _checkpoint, resume=resume)
        )
        interrupt = stack.enter_context(GracefulInterrupt(lambda: recorder.note(STOPPING)))
        checkpoint = _checkpoint(plan) if resume else None
        if checkpoint is not None:
            loop.run(parts.backend.load_checkpoint(checkpoint.path))
        run = Run(plan, parts.composition, parts.backend, recorder, interrupt, checkpoint)
        _train(run, parts, loop)
        for line in parts.composition.rewards.calculator.summaries():
            recorder.note(line)
        loop.run(_save_final(plan, parts.backend))
        return _result(plan, parts.backend, recorder)


def _prepare(plan: Plan, loop: EventLoopThread, stack: ExitStack) -> _Parts:
    config = plan.config
    composition = compose(config)
    stack.callback(composition.close)
    tasks = make_tasks(config)
    tokenizer = load_tokenizer(config)
    demonstrations = None
    if config.algorithm.name == "sft":
        demonstrations = loop.run(_demonstrations(composition, tasks))
    backend = make_training_backend(plan, tokenizer)
    stack.callback(backend.close)
    return _Parts(composition, tasks, backend, demonstrations)


async def _demonstrations(composition: Composition, tasks: Sequence[Task]) -> list[Sample]:
    environment = composition.environment
    tools = await environment.tools()
    return await demonstration_samples(tasks, composition.renderer, environment.limits, tools)


def _checkpoint(plan: Plan) -> Checkpoint | None:
    checkpoint = newest_checkpoint(plan.config.output_dir / CHECKPOINTS)
    if checkpoint is not None:
        require_own_model(plan, checkpoint)
        require_same_shape(checkpoint.path, checkpoint.shape, run_shape(plan))
    return checkpoint


def _train(run: Run, parts: _Parts, loop: EventLoopThread) -> None:
    try:
        if parts.demonstrations is not None:
            loop.run(train_sft(run, parts.tasks, parts.demonstrations))
        else:
            loop.run(train_rl(run, parts.tasks))
    except LossNotFinite as error:
        raise _with_samples(error, run) from error
    except RetrainError:
        raise
    except Exception as error:
        raise _failure(error, run.plan) from error


def _with_samples(error: LossNotFinite, run: Run) -> BackendFailure:
    """Write out the samples that a loss of NaN came from, and say where they are."""
    folder = Path(run.plan.config.output_dir) / FAILED
    folder.mkdir(exist_ok=True)
    path = folder / f"step-{run.backend.step}.jsonl"
    count = write_samples(path, error.samples, decode=run.composition.renderer.decode)
    return BackendFailure(f"{error} ({count} of them are in {path})")


def _failure(error: Exception, plan: Plan) -> BackendFailure:
    reason = f"torch: {type(error).__name__}: {str(error).strip()}"
    if is_out_of_memory(error):
        lower = "algorithm.hyperparameters.torch_micro_batch_tokens"
        size = plan.arguments["micro_batch_tokens"]
        reason += (
            f"\nthe trainer ran out of memory: lower {lower} (it is {size}), or set model.peft"
        )
    return BackendFailure(f"{reason} (traceback in {plan.config.output_dir / EVENTS})")


async def _save_final(plan: Plan, backend: PyTorchTrainingBackend) -> None:
    run, model = plan.config.output_dir, plan.config.model
    if model.peft is None:
        await backend.save_weights(run / MODEL)
        return
    adapter = await backend.save_weights(run / ADAPTER)
    with writing(run / MODEL) as folder:
        merge_adapter(model, adapter, folder)


def _result(plan: Plan, backend: PyTorchTrainingBackend, recorder: RunRecorder) -> RunResult:
    run: Path = plan.config.output_dir
    iterations = backend.step // _steps(plan)
    return RunResult(
        run_dir=run,
        model_dir=run / MODEL,
        iterations=iterations,
        interrupted=iterations < plan.sizes["iterations"],
        metrics=dict(recorder.latest),
    )


def _steps(plan: Plan) -> int:
    return plan.sizes["optimizer_steps_per_iteration"]
