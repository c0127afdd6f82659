"""`run_sft_training`: imitation, on one page."""

from __future__ import annotations

from collections.abc import Sequence

from backends.torch.compute.passes import naming
from backends.torch.configs import SFTTrainingConfig
from backends.torch.protocol import Metrics, TrainingBackend
from backends.torch.rows import TrainingBatch
from backends.torch.watching import LoggingWatch, MetricsLogger, Watch
from retrain.rollout.buffer import DataBuffer
from retrain.sample import Sample
from retrain.types import Task


async def run_sft_training(
    backend: TrainingBackend,
    samples: Sequence[Sample],
    config: SFTTrainingConfig,
    metrics_logger: MetricsLogger | None = None,
    *,
    order: DataBuffer | None = None,
    watch: Watch | None = None,
) -> list[Metrics]:
    """Train on demonstrations to the end, or until the watch says stop.

    A backend that has loaded a checkpoint goes on from its step. An `order` that was given must
    be restored then; where none is, the demonstrations go on where they were.

    Args:
        backend: Computes; its loss is `sft`.
        samples: The demonstrations, with masks.
        config: How.
        metrics_logger: Takes a row every `log_every` steps.
        order: Draws them: task i is sample i. None draws them in epochs, shuffled by the seed.
        watch: In place of the logger: records, saves, stops.

    Returns:
        The metrics of every step of this call.

    Raises:
        RetrainError: What the backend failed with.
    """
    if order is None:
        tasks = [Task(str(place), "") for place in range(len(samples))]
        order = DataBuffer(tasks, seed=config.seed)
        order.draw(config.batch_size * backend.step)  # what the steps before a resume were of
    watch = watch or LoggingWatch(metrics_logger, config.log_every)
    place_of = {task.id: place for place, task in enumerate(order.tasks)}
    history: list[Metrics] = []
    await watch.begin()
    while backend.step < config.num_steps:
        drawn = [samples[place_of[r.task.id]] for r in order.draw(config.batch_size)]
        batch = TrainingBatch.of(drawn).numbered().weighted(config.aggregation)
        computed, stepped = backend.forward_backward(batch), backend.optim_step()
        with naming({place: [sample] for place, sample in enumerate(drawn)}):
            metrics = {**await computed, **await stepped}
        history.append(metrics)
        stop = await watch.after(backend.step, metrics)
        every = config.checkpoint_every
        if stop or (every is not None and backend.step % every == 0):
            await watch.save(backend, backend.step, metrics)
        if stop:
            break
    return history
