"""What is checked of a rollout that slime's own collector filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backends.slime.context import Context
from backends.slime.handed_out import OVER_BEFORE
from backends.slime.regrouping import groups_of, made_here
from backends.slime.samples import flat, ours
from retrain.compose import failure_policy


def check_rollout(context: Context, args: Any, rollout_id: int, samples: Iterable[Any]) -> None:
    """Check a rollout as `RolloutBridge.collect` and `collecting.collect` check theirs.

    Args:
        context: The bridges, and what former rollouts were sampled with.
        args: Slime's arguments.
        rollout_id: Which rollout.
        samples: Slime's samples. One that was aborted and continued has turns of several weights,
            of which the newest counts; one that was over before this rollout does not count.

    Raises:
        TooManyFailures: More of it failed than the configuration allows.
        BackendFailure: The weights did not move.
    """
    leaves = list(flat(samples))
    rows = [ours(leaf) for leaf in leaves if made_here(leaf)]
    groups = groups_of(rows, context.composition.data_format)
    policy = failure_policy(context.config)
    policy.check(trajectory for group in groups for trajectory in group.trajectories)
    played = [leaf for leaf in leaves if OVER_BEFORE not in (leaf.metadata or {})]
    newest = {str(leaf.weight_versions[-1]) for leaf in played if leaf.weight_versions}
    context.watch.check(rollout_id, newest, args)
