"""Which tokens of a batch the present weights wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrain.types import Group, Turn

Masks = Mapping[tuple[int | None, int], tuple[int, ...]]
"""[R] 1 on the tokens of a response that the present weights wrote, by the index of an episode and
the place of its segment, from 0."""


def current_masks(groups: Sequence[Group], version: str) -> Masks:
    """The masks of a batch; none where the present weights wrote all of it.

    Args:
        groups: The batch.
        version: The present weights.
    """
    episodes = [episode for group in groups for episode in group.trajectories]
    if all(wrote == version for e in episodes for turn in e.turns for _, wrote in turn.spans):
        return {}
    return {
        (episode.index, place): written_by(version, segment.turns)
        for episode in episodes
        for place, segment in enumerate(episode.segments)
    }


def written_by(version: str, turns: Sequence[Turn]) -> tuple[int, ...]:
    """[R] 1 on the tokens of some turns that a weight version wrote, 0 on all others."""
    mask: list[int] = []
    for turn in turns:
        for count, wrote in turn.spans:
            mask += [int(wrote == version)] * count
        mask += [0] * len(turn.env_ids)
    return tuple(mask)


def oldest_step(groups: Sequence[Group]) -> int | None:
    """The optimizer step of the oldest weights that wrote in a batch; None where nothing did.

    A version's name begins with its step.
    """
    steps = [
        int(wrote.partition("-")[0])
        for group in groups
        for episode in group.trajectories
        for turn in episode.turns
        for _, wrote in turn.spans
    ]
    return min(steps, default=None)
