"""One run of the torch backend, from an opened folder to the weights it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import Checkpoint, run_shape
from backends.local.recording import STOPPING, recording, require_own_model
from backends.recorder import RunRecorder
from backends.torch.compute.passes import LossNotFinite
from backends.torch.processes.connecting import connected, require_same_plan
from backends.torch.processes.following import follow
from backends.torch.processes.ranks import Ranks
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.run.assembling import make_sharded_backend, make_training_backend
from backends.torch.run.ending import failing, make_result, save_final, with_samples
from backends.torch.run.noting import note_logprobs
from backends.torch.run.training import Run, train_rl, train_sft
from backends.torch.saving.checkpoint_state import newest_checkpoint
from bridges.demonstrations import demonstration_samples
from retrain.compose import Composition, compose, make_tasks
from retrain.launch import Launch
from retrain.model_files import load_tokenizer
from retrain.report.result import RunResult
from retrain.report.run_folder import CHECKPOINTS
from retrain.rollout.state_file import require_same_shape
from retrain.runtime import EventLoopThread
from retrain.sample import Sample
from retrain.seeds import derive_seed
from retrain.types import Task


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is read and loaded before the run folder is made."""

    composition: Composition
    tasks: Sequence[Task]
    backend: PyTorchTrainingBackend
    demonstrations: Sequence[Sample] | None


def run_plan(plan: Plan, *, resume: bool, launch: Launch) -> RunResult:
    """Train a plan to its end, or until the user stops it.

    Everything that can be wrong with the input is read before the run folder is made. Of several
    processes the first one runs the plan, and the others compute their part of what it asks for.

    Args:
        plan: What to run.
        resume: Go on from the newest complete checkpoint.
        launch: Which process this is.
    """
    config = plan.config
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    with connected(launch, plan.arguments["timeout"]) as ranks:
        require_same_plan(plan, ranks)
        if launch.first:
            return _lead(plan, ranks, launch, resume=resume)
        return _follow(plan, ranks, launch)


def _lead(plan: Plan, ranks: Ranks, launch: Launch, *, resume: bool) -> RunResult:
    with ExitStack() as stack:
        loop = stack.enter_context(EventLoopThread())
        parts = _prepare(plan, ranks, loop, stack)
        recorder = stack.enter_context(
            recording(plan, parts.composition, _checkpoint, resume=resume)
        )
        interrupt = stack.enter_context(GracefulInterrupt(lambda: recorder.note(STOPPING)))
        checkpoint = _checkpoint(plan) if resume else None
        run = Run(plan, parts.composition, parts.backend, recorder, interrupt, checkpoint)
        with failing(plan, launch):
            if checkpoint is not None:
                _go_on(parts.backend, checkpoint, ranks, recorder, loop)
            _train(run, parts, loop)
            for line in parts.composition.rewards.calculator.summaries():
                recorder.note(line)
            loop.run(save_final(plan, parts.backend))
            loop.run(parts.backend.release())
        return make_result(plan, parts.backend, dict(recorder.latest))


def _follow(plan: Plan, ranks: Ranks, launch: Launch) -> RunResult:
    """Train as the first process says; it decides on Ctrl-C too."""
    with GracefulInterrupt(lambda: None), failing(plan, launch):
        torch.manual_seed(plan.config.seed)  # a new adapter is the same in every process
        with make_sharded_backend(plan, None, ranks) as backend:
            torch.manual_seed(derive_seed("dropout", plan.config.seed, ranks.rank))
            note_logprobs(plan, backend)
            asyncio.run(follow(backend, ranks))
    return make_result(plan, backend, {})


def _prepare(plan: Plan, ranks: Ranks, loop: EventLoopThread, stack: ExitStack) -> _Parts:
    config = plan.config
    composition = compose(config)
    stack.callback(composition.close)
    tasks = make_tasks(config)
    tokenizer = load_tokenizer(config)
    demonstrations = None
    if config.algorithm.name == "sft":
        demonstrations = loop.run(_demonstrations(composition, tasks))
    torch.manual_seed(config.seed)
    if ranks.processes > 1:
        backend: PyTorchTrainingBackend = make_sharded_backend(plan, tokenizer, ranks)
    else:
        backend = make_training_backend(plan, tokenizer)
    stack.enter_context(backend)
    note_logprobs(plan, backend)
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


def _go_on(
    backend: PyTorchTrainingBackend,
    checkpoint: Checkpoint,
    ranks: Ranks,
    recorder: RunRecorder,
    loop: EventLoopThread,
) -> None:
    """Load a checkpoint, and say what another number of processes cannot go on with."""
    loop.run(backend.load_checkpoint(checkpoint.path))
    before, now = int(checkpoint.state.get("processes", 1)), ranks.processes
    if before != now:
        text = (
            f"{checkpoint.path.name} was saved by {before} processes, and {now} go on: weights and "
            "optimizer are cut up anew; the random state of each process, which decides on dropout "
            "alone, is not the one that it would have had"
        )
        recorder.note(text)
        recorder.folder.log_event(text)


def _train(run: Run, parts: _Parts, loop: EventLoopThread) -> None:
    try:
        if parts.demonstrations is not None:
            loop.run(train_sft(run, parts.tasks, parts.demonstrations))
        else:
            loop.run(train_rl(run, parts.tasks))
    except LossNotFinite as error:
        raise with_samples(error, run) from error
