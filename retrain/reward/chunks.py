"""Cuts the episodes of one component into the calls that are made of its function."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from retrain.reward.components import RewardComponent
from retrain.reward.taking import Takes
from retrain.types import Trajectory


def calls_of(component: RewardComponent, trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """The episodes of each call, by position.

    Args:
        component: Says what its function takes, and how much at once.
        trajectories: The episodes.

    Returns:
        Every position once: alone, in chunks in the order given, or by group.
    """
    if component.takes is Takes.GROUP:
        return by_group(trajectories)
    if component.takes is not Takes.EPISODES:
        return [[position] for position in range(len(trajectories))]
    sizes = [token_count(trajectory) for trajectory in trajectories]
    return chunks(sizes, component.batch_size, component.batch_tokens)


def by_group(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """The positions of each group, a visit to one task, in order of appearance."""
    groups: dict[Hashable, list[int]] = {}
    for position, trajectory in enumerate(trajectories):
        seed = trajectory.seed
        key = (seed.run, seed.split, seed.task_id, seed.visit)
        groups.setdefault(key, []).append(position)
    return list(groups.values())


def chunks(sizes: Sequence[int], most: int | None, budget: int | None) -> list[list[int]]:
    """Cut positions into chunks, in order.

    Args:
        sizes: Tokens of each episode.
        most: Most episodes of a chunk; None sets no bound.
        budget: Most tokens of a chunk, each episode padded to its longest: number times longest.
            An episode that is longer than that stands alone. None sets no bound.
    """
    found: list[list[int]] = []
    longest = 0
    for position, size in enumerate(sizes):
        count = len(found[-1]) if found else 0
        padded = (count + 1) * max(longest, size)
        fits = (most is None or count < most) and (budget is None or padded <= budget)
        if found and fits:
            found[-1].append(position)
            longest = max(longest, size)
        else:
            found.append([position])
            longest = size
    return found


def token_count(trajectory: Trajectory) -> int:
    """Tokens of an episode: its prompts, what the model wrote and what the environment replied."""
    return sum(
        len(segment.prompt_ids)
        + sum(len(turn.output_ids) + len(turn.env_ids) for turn in segment.turns)
        for segment in trajectory.segments
    )
