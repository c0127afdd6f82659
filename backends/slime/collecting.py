"""`generate_rollout` where retrain fills an iteration: the groups are collected by our bridge."""

from __future__ import annotations

from typing import Any

from backends.slime.context import Context, answers_of
from backends.slime.drawing import Drawing
from backends.slime.engine import Answers
from backends.slime.framework import framework
from backends.slime.samples import answers_to, fill
from retrain.report.batch_metrics import batch_metrics
from retrain.types import Group


async def collect(context: Context, args: Any, rollout_id: int, source: Any) -> Any:
    """Collect the groups of one rollout.

    When it returns or raises, no request is in flight.

    Args:
        context: The bridges and the engine.
        args: Slime's arguments; None takes the sizes from the configuration.
        rollout_id: Which rollout.
        source: Slime's data source.

    Returns:
        `RolloutFnTrainOutput`: groups of exactly G items, in the order drawn; an item is a list
        where an episode has several segments.

    Raises:
        RetrainError: A failure whose policy is to raise, too many failures, or weights that did
            not move.
    """
    batch = _batch_size(context, args)
    drawing = Drawing(source, context.tasks, first_index=rollout_id * batch)
    requests = drawing.draw(batch)
    rollouts = context.rollouts(n_samples=len(drawing.members(requests[0].index)))
    groups = await rollouts.collect(requests, refill=drawing.one)
    answers = answers_of(rollouts)
    samples = [_fill_group(context, group, drawing, answers, args) for group in groups]
    turns = [turn for group in groups for t in group.trajectories for turn in t.turns]
    context.watch.check(rollout_id, {turn.weight_version for turn in turns}, args)
    snapshot = getattr(source, "snapshot", None)
    if snapshot is not None:
        snapshot(rollout_id)
    return framework().train_output(samples=samples, metrics=batch_metrics(groups))


def _batch_size(context: Context, args: Any) -> int:
    own: int = context.config.algorithm.hyperparameters.rollout_batch_size
    return int(getattr(args, "rollout_batch_size", None) or own)


def _fill_group(
    context: Context, group: Group, drawing: Drawing, answers: Answers, args: Any
) -> list[Any]:
    slots = context.composition.data_format.group_samples(group)
    members = drawing.members(group.index)
    rows = zip(members, slots, group.trajectories, strict=True)
    filled = [
        fill(target, slot, answers_to(trajectory, answers), args)
        for target, slot, trajectory in rows
    ]
    return [_trainable(item) for item in filled]


def _trainable(item: Any) -> Any:
    """An aborted episode keeps its slot: nobody would play it again, and slime needs a number."""
    for sample in item if isinstance(item, list) else [item]:
        if sample.reward is None:
            sample.reward = 0.0
    return item
