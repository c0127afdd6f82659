"""`run_rl_training`: reinforcement learning, on one page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Protocol

from backends.local.written_by import Masks, current_masks
from backends.torch.compute.passes import naming
from backends.torch.configs import RLTrainingConfig
from backends.torch.protocol import Metrics, TrainingBackend
from backends.torch.rows import TrainingBatch, by_index
from backends.torch.watching import LoggingWatch, MetricsLogger, Watch, mean_metrics
from backends.torch.weight_sync import Engines
from retrain.rollout.config import RolloutBatch
from retrain.sample import Sample


class Rollouts(Protocol):
    """Where batches come from; `AsyncRolloutManager` is one."""

    async def generate_batch(self) -> RolloutBatch:
        """Fill the next batch, or give the one that was collected meanwhile."""
        ...

    def weights_changing(self) -> AbstractAsyncContextManager[None]:
        """Keep every turn out of the engine while the context lasts."""
        ...


async def run_rl_training(
    backend: TrainingBackend,
    rollout_manager: Rollouts,
    engines: Engines,
    config: RLTrainingConfig,
    metrics_logger: MetricsLogger | None = None,
    *,
    done: int = 0,
    watch: Watch | None = None,
) -> list[Metrics]:
    """Collect, train, send the weights; to the end, or until the watch says stop.

    Synchronous where the manager collects on request; one step off policy where it collects ahead
    (`RolloutConfig.ahead`, `rollout.asynchronous`): the loop is the same.

    Args:
        backend: Computes.
        rollout_manager: Gives batches.
        engines: What writes the turns gets the weights.
        config: How.
        metrics_logger: Takes a row every `log_every` iterations.
        done: Iterations that a checkpoint has behind it, which the backend has loaded.
        watch: In place of the logger: records, evaluates, saves, stops.

    Returns:
        The metrics of every iteration of this call.

    Raises:
        RetrainError: What a rollout, the backend or an engine failed with.
    """
    watch = watch or LoggingWatch(metrics_logger, config.log_every)
    history: list[Metrics] = []
    async with rollout_manager.weights_changing():
        version = await engines.sync(backend)
    await watch.begin()
    for iteration in range(done + 1, config.num_steps + 1):
        batch = await rollout_manager.generate_batch()
        await engines.release()
        current = current_masks(batch.groups, version)
        metrics = await train_on(backend, batch.samples, config, current=current)
        history.append(metrics)
        if iteration % config.sync_every == 0 or iteration == config.num_steps:
            async with rollout_manager.weights_changing():
                version = await engines.sync(backend)
        else:
            await engines.resume()
        stop = await watch.after(iteration, metrics)
        every = config.checkpoint_every
        if stop or (every is not None and iteration % every == 0):
            await watch.save(backend, iteration, metrics)
        if stop:
            break
    return history


async def train_on(
    backend: TrainingBackend,
    samples: Sequence[Sample],
    config: RLTrainingConfig,
    *,
    current: Masks = MappingProxyType({}),
) -> Metrics:
    """Take the optimizer steps of one batch of rollouts, in the order of its rollouts.

    All steps are queued at once: the tensors of one are made while another is computed.

    Args:
        backend: Computes.
        samples: The batch.
        config: How.
        current: Which tokens the present weights wrote, where others wrote some of them.
    """
    began = time.perf_counter()
    batch = TrainingBatch.of(samples).with_current(current)
    if config.recompute_old:
        batch = batch.with_old(await backend.score(batch))
    if config.reference:
        batch = batch.with_reference(await backend.score(batch, reference=True))
    queued = [
        (
            backend.forward_backward(step.weighted(config.aggregation, config.constant)),
            backend.optim_step(),
        )
        for step in batch.steps(config.rollouts_per_step or len(samples))
    ]
    with naming(by_index(samples)):
        steps = [{**await computed, **await stepped} for computed, stepped in queued]
    return {**mean_metrics(steps), "train/seconds": time.perf_counter() - began}
