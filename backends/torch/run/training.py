"""The two loops of a run that has a run folder: what they are given."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import Checkpoint
from backends.recorder import Recorder
from backends.torch.processes.launching import IN_PROCESS, WEIGHTS, engine_name
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.rl_loop import run_rl_training
from backends.torch.run.assembling import pass_settings, rl_config, sft_config
from backends.torch.run.bridged import BridgedRollouts, HeldOut
from backends.torch.run.run_watch import RunWatch
from backends.torch.sft_loop import run_sft_training
from backends.torch.weight_sync import Engines, LoadsWeights, SharesWeights
from retrain.compose import Composition, load_engine, make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.engine.transformers_loading import fit_engine
from retrain.errors import ConfigError
from retrain.report.start import read_start
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filter_building import over_sampling
from retrain.sample import Sample
from retrain.types import Task

if TYPE_CHECKING:
    from retrain.compose import ClosableEngine


@dataclass(frozen=True, slots=True)
class Run:
    """One opened run.

    Attributes:
        plan: What to run.
        composition: The bridges.
        backend: Computes; it has loaded the checkpoint.
        recorder: Writes the run folder.
        interrupt: Says whether the user asked to stop.
        checkpoint: Where to go on from; None begins.
    """

    plan: Plan
    composition: Composition
    backend: PyTorchTrainingBackend
    recorder: Recorder
    interrupt: GracefulInterrupt
    checkpoint: Checkpoint | None

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.plan.config


async def train_sft(run: Run, tasks: Sequence[Task], samples: Sequence[Sample]) -> None:
    """Imitate to the end, or until the user stops it.

    Args:
        run: The opened run.
        tasks: The demonstrations.
        samples: What to imitate, one of each demonstration.
    """
    order = _buffer(run, tasks)
    if run.checkpoint is not None:
        order.load_state_dict(run.checkpoint.state["data"])

    async def state() -> Mapping[str, Any]:
        return {"data": order.state_dict()}

    watch = RunWatch(run.plan, run.backend, run.recorder, run.interrupt, state)
    settings = sft_config(run.plan.arguments)
    await run_sft_training(run.backend, samples, settings, order=order, watch=watch)


async def train_rl(run: Run, tasks: Sequence[Task]) -> None:
    """Learn from rollouts to the end, or until the user stops it.

    Args:
        run: The opened run.
        tasks: What to train on.
    """
    async with _engine(run) as engine:
        rollouts = _rollouts(run, engine, tasks)
        done = 0
        if run.checkpoint is not None:
            rollouts.load(run.checkpoint.state, tasks)
            done = int(run.checkpoint.state["iteration"])
        watch = RunWatch(
            run.plan,
            run.backend,
            run.recorder,
            run.interrupt,
            rollouts.state,
            _held_out(run, engine),
            resumed=done > 0,
        )
        engines = Engines(
            [engine],
            _weights_folder(run),
            colocated=run.plan.arguments["colocate"],
            note=run.recorder.note,
        )
        settings = rl_config(run.plan.arguments)
        try:
            await run_rl_training(run.backend, rollouts, engines, settings, done=done, watch=watch)
        finally:
            await rollouts.close()
            await engines.close()


@asynccontextmanager
async def _engine(run: Run) -> AsyncIterator[Any]:
    """What writes the turns: in this process with the weights in training, or a server's."""
    if engine_name(run.config) == IN_PROCESS:
        engine: Any = fit_engine(
            run.backend.model,
            longest=run.composition.environment.limits.max_context_len,
            most=run.config.rollout.concurrency,
            autocast=pass_settings(run.plan.arguments).autocast,
        )
    else:
        engine = load_engine(run.config.rollout.engine, run.composition)
    closing: ClosableEngine = engine
    if not isinstance(engine, SharesWeights | LoadsWeights):
        raise ConfigError(
            f"rollout.engine: {engine_name(run.config)!r} loads no weights "
            "(update_weights_from_checkpoint), so it would go on with the old ones"
        )
    try:
        yield engine
    finally:
        closing.close()


def _weights_folder(run: Run) -> Path:
    """Where servers load weights from, without those that a killed run has left there."""
    folder = run.config.output_dir / WEIGHTS
    for left in folder.glob("*"):
        shutil.rmtree(left, ignore_errors=True)
    return folder


def _rollouts(run: Run, engine: Any, tasks: Sequence[Task]) -> BridgedRollouts:
    config = run.config
    size = config.algorithm.hyperparameters.rollout_batch_size
    return BridgedRollouts(
        run.composition,
        engine,
        _buffer(run, tasks),
        over_sampling(config.rollout, size),
        run.recorder,
        iterations=run.plan.sizes["iterations"],
        steps=run.plan.sizes["optimizer_steps_per_iteration"],
        ahead=config.asynchronous,
    )


def _buffer(run: Run, tasks: Sequence[Task]) -> DataBuffer:
    """The tasks in their order, from where the run begins."""
    buffer = make_buffer(run.config, tasks)
    start = read_start(run.config.output_dir)
    if start is not None:
        buffer.load_state_dict(start.buffer)
    return buffer


def _held_out(run: Run, engine: Any) -> HeldOut:
    section = run.config.evaluation
    tasks = () if section is None else make_tasks(run.config, section.prompt_source)
    rollouts = run.composition.rollouts(engine, evaluation=True)
    return HeldOut(tasks, rollouts, run.composition, run.recorder)
