"""What episodes are trained on in slime's batches: their rewards after normalisation, by group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from backends.slime.context import Context
from backends.slime.samples import flat
from backends.slime.score_notes import agent_of, components_of, keeper, trained_of, write_trained
from backends.slime.votes import vote_of, votes

Votes = dict[Hashable, dict[Hashable, float | None]]
Siblings = list[Any]
"""The samples of one episode."""


def trained_votes(context: Context, args: Any, samples: Sequence[Any]) -> Votes:
    """The reward that every episode is trained on, by group and by episode.

    Args:
        context: The bridges.
        args: Slime's arguments.
        samples: All samples of the rollout.

    Returns:
        As `votes`, normalised as `reward_setup` says. A group with a valid episode of which only
        the sum is known (somebody else gave its reward) keeps its raw rewards.
    """
    raw = votes(args, samples)
    if not context.composition.rewards.shapes:
        return raw
    episodes = _episodes(samples)
    return {group: _trained(context, rewards, episodes[group]) for group, rewards in raw.items()}


def agents_by_vote(samples: Sequence[Any]) -> dict[Hashable, dict[Hashable, str | None]]:
    """Whose episode each is, by group and by episode; None in an environment of one agent."""
    groups = _episodes(samples).items()
    return {group: {v: agent_of(s) for v, s in episodes.items()} for group, episodes in groups}


def settle(context: Context, args: Any, samples: Sequence[Any]) -> None:
    """Normalise a rollout that slime's own manager filled, once, running statistics included.

    What each episode is trained on is written on its samples, so that the later calls for the same
    rollout give the same. An episode that cannot be normalised is removed.

    Args:
        context: The bridges.
        args: Slime's arguments.
        samples: All samples of the rollout.
    """
    rewards = context.composition.rewards
    if not rewards.shapes:
        return
    episodes = _episodes(samples)
    groups = [
        [siblings for vote, siblings in episodes[group].items() if _scored(own[vote], siblings)]
        for group, own in votes(args, samples).items()
    ]
    rows = [[components_of(keeper(siblings)) for siblings in group] for group in groups]
    rewards.learn(rows)
    for group, values in zip(groups, rows, strict=True):
        for siblings, shaped in zip(group, rewards.shape(values), strict=True):
            if shaped.trained is not None:
                write_trained(keeper(siblings), shaped.trained, shaped.normalised)
                continue
            for sample in siblings:
                sample.remove_sample = True


def _trained(
    context: Context,
    rewards: Mapping[Hashable, float | None],
    episodes: Mapping[Hashable, Siblings],
) -> dict[Hashable, float | None]:
    """The trained rewards of one group."""
    valid = [vote for vote, reward in rewards.items() if reward is not None]
    if not all(_scored(rewards[vote], episodes[vote]) for vote in valid):
        return dict(rewards)
    keepers = [keeper(episodes[vote]) for vote in valid]
    written = [trained_of(sample) for sample in keepers]
    if any(value is None for value in written):
        bridge = context.composition.rewards
        agents = [agent_of(episodes[vote]) for vote in valid] if bridge.by_agent else ()
        shaped = bridge.shape([components_of(sample) for sample in keepers], agents)
        written = [one.trained for one in shaped]
    return {**rewards, **dict(zip(valid, written, strict=True))}


def _episodes(samples: Sequence[Any]) -> dict[Hashable, dict[Hashable, Siblings]]:
    """The samples of each episode, by group and by episode."""
    episodes: dict[Hashable, dict[Hashable, Siblings]] = {}
    for position, sample in enumerate(flat(samples)):
        group = episodes.setdefault(sample.group_index, {})
        group.setdefault(vote_of(sample, position), []).append(sample)
    return episodes


def _scored(reward: float | None, siblings: Siblings) -> bool:
    """Whether an episode is valid, and its components are known."""
    sample = keeper(siblings)
    return reward is not None and sample is not None and bool(components_of(sample))
