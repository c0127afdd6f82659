"""`generate_rollout` where retrain fills an iteration: the groups are collected by our manager."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from backends.slime.context import Context, answers_of
from backends.slime.drawing import Drawing, group_samples
from backends.slime.engine import Answers
from backends.slime.framework import framework
from backends.slime.nesting import evenly_nested
from backends.slime.samples import answers_to, fill, keyed
from bridges.data_format import Fresh
from retrain.report.batch_metrics import batch_metrics
from retrain.report.filling_metrics import filling_metrics
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.filter_building import over_sampling
from retrain.rollout.manager import RolloutManager
from retrain.types import Group


@dataclass(frozen=True, slots=True)
class Collecting:
    """What outlives a rollout: groups that are half played, and slime's samples for them.

    Attributes:
        source: Slime's data source, whose groups they are.
        drawing: Draws from it, and keeps the samples that wait for their episodes.
        how: How a rollout is filled.
        manager: Fills it.
        answers: What the servers said about the turns.
    """

    source: Any
    drawing: Drawing
    how: OverSampling
    manager: RolloutManager
    answers: Answers


async def collect(context: Context, args: Any, rollout_id: int, source: Any) -> Any:
    """Collect the groups of one rollout.

    When it returns or raises, no request is in flight.

    Args:
        context: The bridges and the engine.
        args: Slime's arguments; None takes the sizes from the configuration.
        rollout_id: Which rollout.
        source: Slime's data source.

    Returns:
        `RolloutFnTrainOutput`: groups of exactly G items, in the order drawn; the items are lists
        where any episode has several segments.

    Raises:
        RetrainError: A failure whose policy is to raise, too many failures, a filter that is wrong
            or drops too much, or weights that did not move.
    """
    collecting = await _collecting(context, args, rollout_id, source)
    try:
        batch = await collecting.manager.collect()
    except BaseException:
        await _end(context)
        raise
    batch = replace(batch, groups=tuple(context.composition.rewards.settle(batch.groups)))
    samples = _fill(context, args, collecting, batch)
    context.watch.check(rollout_id, batch.versions, args)
    _tidy(collecting, batch)
    await _keep_state(collecting, rollout_id)
    if rollout_id + 1 == getattr(args, "num_rollout", None):
        await _end(context)
    groups = batch.groups
    filled = filling_metrics(collecting.how, batch.tally, groups, batch.versions)
    return framework().train_output(samples=samples, metrics={**batch_metrics(groups), **filled})


async def _keep_state(collecting: Collecting, rollout_id: int) -> None:
    """Let our data source remember where the rollout ended; slime's own remembers nothing.

    The two parts are taken with no wait between them: environments run on, and one that fails may
    draw another task at any time.
    """
    source = collecting.source
    if getattr(source, "snapshot", None) is not None:
        position = source.position()
        source.snapshot(rollout_id, await collecting.manager.saved_state(), position)


async def _collecting(context: Context, args: Any, rollout_id: int, source: Any) -> Collecting:
    """What the rollout before this one left; begun at the first rollout of a source."""
    found = context.collecting
    if found is None or found.source is not source:
        await _end(context)
        found = context.collecting = _begin(context, args, rollout_id, source)
    return found


def _begin(context: Context, args: Any, rollout_id: int, source: Any) -> Collecting:
    batch = _batch_size(context, args)
    drawing = Drawing(source, context.tasks, first_index=rollout_id * batch)
    state = getattr(source, "rollout_state", None)
    drawn = drawing.draw(batch)
    n_samples = len(drawing.members(drawn[0].index))
    rollouts = context.rollouts(n_samples=n_samples)
    how = _on_time(over_sampling(context.config.rollout, batch), context, args)
    manager = rollouts.managed(drawing, how)
    if state is not None:
        manager.load_state_dict(state, context.tasks)
        for request in manager.requests():
            drawing.adopt(request, group_samples(request, n_samples))
    manager.enqueue(drawn)
    return Collecting(source, drawing, how, manager, answers_of(rollouts))


def _on_time(how: OverSampling, context: Context, args: Any) -> OverSampling:
    """Leave slime's asynchronous loop the updates that it makes before it trains on a batch.

    `train_async.py` begins rollout n when n - 1 were trained on, with weights that are up to
    `--update-weights-interval` updates old by the time rollout n is trained on.
    """
    if how.max_staleness is None or not context.config.asynchronous:
        return how
    interval = int(getattr(args, "update_weights_interval", None) or 1)
    return replace(how, max_staleness=how.max_staleness - interval)


async def _end(context: Context) -> None:
    """End what is half played."""
    found, context.collecting = context.collecting, None
    if found is not None:
        await found.manager.close()


def _tidy(collecting: Collecting, batch: Batch) -> None:
    """Forget the samples and the answers of groups that are over."""
    waiting = collecting.manager.requests()
    collecting.drawing.keep({request.index for request in waiting})
    if not waiting:
        collecting.answers.clear()


def _batch_size(context: Context, args: Any) -> int:
    own: int = context.config.algorithm.hyperparameters.rollout_batch_size
    return int(getattr(args, "rollout_batch_size", None) or own)


def _fill(context: Context, args: Any, collecting: Collecting, batch: Batch) -> list[Any]:
    fresh = batch.versions if collecting.how.mask_stale else None
    filled = [_fill_group(context, group, collecting, fresh, args) for group in batch.groups]
    return evenly_nested(filled)


def _fill_group(
    context: Context, group: Group, collecting: Collecting, fresh: Fresh, args: Any
) -> list[Any]:
    slots = context.composition.data_format.group_samples(group, fresh=fresh)
    members = collecting.drawing.members(group.index)
    vision = context.composition.image_processor
    rows = zip(members, slots, group.trajectories, strict=True)
    filled = [
        fill(target, slot, answers_to(trajectory, collecting.answers), args, vision)
        for target, slot, trajectory in rows
    ]
    return [_trainable(item, args) for item in filled]


def _trainable(item: Any, args: Any) -> Any:
    """An aborted episode keeps its slot: nobody would play it again, and slime needs a number."""
    for sample in item if isinstance(item, list) else [item]:
        if sample.reward is None:
            sample.reward = keyed(args, 0.0)
    return item
