"""`reward` and `reward_post_process`: our calculator and our advantages in slime's places."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from backends.slime.context import Context
from backends.slime.drawing import place_of
from backends.slime.samples import flat, keyed, ours
from backends.slime.score_notes import write_scores
from backends.slime.trained_votes import agents_by_vote, trained_votes
from backends.slime.votes import reward_of, vote_of
from bridges.data_format import KEY
from retrain.reward.advantages import group_advantages
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import FinishReason, Segment, StopReason, Trajectory, Turn


async def score(context: Context, args: Any, sample: Any) -> Any:
    """Score a sample, the siblings of one, or a group, for slime's reward model hook.

    Args:
        context: The bridges.
        args: Slime's arguments; with a `reward_key`, rewards are mappings.
        sample: One sample gives its reward; a list gives a list, in order. What has a reward
            already keeps it, and the siblings of one episode are scored once. What our `generate`
            did not play is scored by its text alone, that of its last sample.

    Returns:
        Rewards; 0.0 where none is known, since slime needs a number. Such a sample is marked as
        removed, so that it neither trains nor votes.
    """
    leaves = list(flat([sample]))
    episodes: dict[Hashable, list[Any]] = {}
    for position, leaf in enumerate(leaves):
        if leaf.reward is None:
            episodes.setdefault(vote_of(leaf, position), []).append(leaf)
    played = [episode_of(context, siblings) for siblings in episodes.values()]
    scored = await context.composition.rewards.score(played)
    found: dict[int, Any] = {id(leaf): leaf.reward for leaf in leaves}
    for siblings, trajectory in zip(episodes.values(), scored, strict=True):
        write_scores(siblings, trajectory)
        given = keyed(args, trajectory.reward or 0.0)
        for leaf in siblings:
            leaf.remove_sample = leaf.remove_sample or not trajectory.valid
            found[id(leaf)] = given
    if not isinstance(sample, list):
        return found[id(sample)]
    return [found[id(next(flat([item])))] for item in sample]


def advantages(context: Context, args: Any, samples: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Raw rewards, and the advantages that slime trains on.

    Groups are told apart by `group_index`, however many samples each has, and an episode counts
    once. Removed, failed and aborted episodes leave the statistics and get 0.

    Args:
        context: Names the advantage (`algorithm.name`).
        args: Slime's arguments.
        samples: All samples of the rollout.

    Returns:
        (raw rewards, advantages), one of each per sample, in order.
    """
    bridge, agents = context.composition.rewards, agents_by_vote(samples)
    found: dict[Hashable, float] = {}
    for group, rewards in trained_votes(context, args, samples).items():
        whose = [agents[group][vote] for vote in rewards] if bridge.by_agent else ()
        values = group_advantages(bridge.advantage, list(rewards.values()), whose)
        found |= {(group, vote): value for vote, value in zip(rewards, values, strict=True)}
    leaves = list(flat(samples))
    raw = [reward_of(args, sample) or 0.0 for sample in leaves]
    return raw, [
        0.0 if sample.remove_sample else found[sample.group_index, vote_of(sample, position)]
        for position, sample in enumerate(leaves)
    ]


def episode_of(context: Context, siblings: Sequence[Any]) -> Trajectory:
    """The episode of siblings: as our `generate` played it, or one turn of the last response."""
    samples = [ours(sample) for sample in siblings]
    if all(KEY in sample.metadata for sample in samples):
        return context.composition.data_format.to_trajectory(samples)
    sample = samples[-1]
    place = place_of(siblings[-1], context.tasks)
    ids = tuple(sample.response_ids)
    action = context.composition.renderer.parse(ids)
    turn = Turn(ids, tuple(sample.rollout_log_probs), FinishReason.STOP, action)
    cut = sample.status is Status.TRUNCATED
    return Trajectory(
        task=place.request.task,
        seed=EpisodeSeed(context.config.seed, "train", place.request.task.id, 0, place.member),
        segments=(Segment(tuple(sample.prompt_ids), (turn,) if ids else ()),),
        status=sample.status,
        stop_reason=StopReason.MAX_RESPONSE_LEN if cut else StopReason.TERMINATED,
    )
