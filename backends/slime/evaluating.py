"""`eval_rollout`: the held-out tasks, by the same bridges and engine."""

from __future__ import annotations

import time
from typing import Any

from backends.slime.context import Context, answers_of
from backends.slime.drawing import group_samples
from backends.slime.framework import framework
from backends.slime.recording import Held
from backends.slime.samples import answers_to, fill, flat
from backends.slime.votes import reward_of, vote_of
from retrain.errors import ConfigError
from retrain.report.batch_metrics import EVALUATION, batch_metrics
from retrain.rollout.request import GroupRequest

NAME = "heldout"
"""What slime calls the held-out tasks in its own logs."""


async def evaluate(context: Context, args: Any, rollout_id: int) -> Any:
    """Play the held-out tasks.

    Args:
        context: The bridges and the engine.
        args: Slime's arguments.
        rollout_id: Which rollout it belongs to.

    Returns:
        `RolloutFnEvalOutput`: the episodes whose reward is known, flat, since slime averages over
        what it is given; all of them are kept for `log_eval`.

    Raises:
        ConfigError: The configuration has no evaluation.
        RetrainError: A failure whose policy is to raise, or too many failures.
    """
    if not context.evaluation_tasks:
        raise ConfigError("evaluation: is missing, and slime asks for one; add the section")
    began = time.perf_counter()
    rollouts = context.rollouts(evaluation=True)
    requests = [GroupRequest(n, task, 0) for n, task in enumerate(context.evaluation_tasks)]
    groups = await rollouts.collect(requests)
    answers, vision = answers_of(rollouts), context.composition.image_processor
    played: list[Any] = []
    for group in groups:
        targets = group_samples(requests[group.index], rollouts.settings.n_samples)
        slots = context.composition.data_format.group_samples(group)
        for target, slot, trajectory in zip(targets, slots, group.trajectories, strict=True):
            given = answers_to(trajectory, answers)
            played += flat([fill(target, slot, given, args, vision)])
    seconds = time.perf_counter() - began
    metrics = batch_metrics(groups, seconds=seconds, prefix=EVALUATION)
    if context.log is not None:
        context.log.hold(Held(rollout_id, tuple(played), seconds))
    return framework().eval_output(data={NAME: _columns(played, args)}, metrics=metrics)


def _columns(played: list[Any], args: Any) -> dict[str, list[Any]]:
    """Slime's columns; an episode of several samples has one reward."""
    known = [sample for sample in played if not sample.remove_sample] or played
    truncated = framework().sample.Status.TRUNCATED
    votes = list({vote_of(sample, n): sample for n, sample in enumerate(known)}.values())
    return {
        "rewards": [reward_of(args, sample) or 0.0 for sample in votes],
        "truncated": [sample.status == truncated for sample in votes],
        "samples": known,
    }
