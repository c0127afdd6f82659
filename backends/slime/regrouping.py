"""From samples back to the groups that they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from backends.slime.votes import vote_of
from bridges.data_format import KEY, DataFormatBridge
from retrain.sample import Sample
from retrain.types import Group, Trajectory


def made_here(sample: Any) -> bool:
    """Whether our bridges made a sample, so that its episode can be rebuilt."""
    return KEY in (sample.metadata or {})


def groups_of(rows: Iterable[Sample], data_format: DataFormatBridge) -> list[Group]:
    """Rebuild the groups of samples that our bridges made.

    Args:
        rows: All samples of each episode, in any order.
        data_format: Rebuilds an episode.
    """
    episodes: dict[Any, list[Sample]] = defaultdict(list)
    for position, row in enumerate(rows):
        episodes[row.group_index, vote_of(row, position)].append(row)
    by_group: dict[int | None, list[Trajectory]] = defaultdict(list)
    for (index, _), siblings in episodes.items():
        by_group[index].append(_episode(siblings, data_format))
    return [_group(index, members) for index, members in by_group.items()]


def _episode(siblings: Sequence[Sample], data_format: DataFormatBridge) -> Trajectory:
    """An episode, with what slime's hooks did to it after it was played."""
    played = data_format.to_trajectory(siblings)
    removed = all(sibling.remove_sample for sibling in siblings)
    reward = siblings[0].reward if played.reward is None else played.reward
    number = reward if isinstance(reward, int | float) else None
    return replace(played, reward=number, masked=played.masked or removed)


def _group(index: int | None, trajectories: Sequence[Trajectory]) -> Group:
    first = trajectories[0]
    number = -1 if index is None else index
    return Group(number, first.task, first.seed.visit, tuple(trajectories))
