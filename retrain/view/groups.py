"""Groups of a samples file: the episodes of one visit to one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, stdev

from retrain.view.summary import EpisodeSummary, Flag


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group in a list.

    Attributes:
        id: FILE@GROUP, such as "12@96".
        number: The group's number in the run; None where it is not known.
        task_id: Its task.
        size: How many episodes it has.
        episodes: Its episodes, in the order written; in a list, those that the query admits.
        mean: Mean reward of the valid ones; None where there is none.
        spread: Their sample standard deviation (ddof 1); None where fewer than two are valid.
        zero_variance: All valid rewards are equal, those of each agent by themselves where there
            are several, so that nothing is learned from it.
    """

    id: str
    number: int | None
    task_id: str
    size: int
    episodes: tuple[EpisodeSummary, ...]
    mean: float | None
    spread: float | None
    zero_variance: bool


def group_up(file: str, episodes: Sequence[EpisodeSummary]) -> tuple[GroupSummary, ...]:
    """Put the episodes of a file into groups; neighbours of the same number belong together.

    An episode of a group without variance gets the flag.
    """
    return tuple(
        _group(f"{file}@{'' if number is None else number}", number, tuple(members))
        for number, members in groupby(episodes, key=lambda episode: episode.group)
    )


def _is_flat(valid: Sequence[EpisodeSummary]) -> bool:
    """Whether no agent's episodes differ in what is trained on."""
    by_agent: dict[str | None, list[float | None]] = {}
    for episode in valid:
        by_agent.setdefault(episode.agent, []).append(episode.trained_reward)
    compared = [rewards for rewards in by_agent.values() if len(rewards) > 1]
    return bool(compared) and all(len(set(rewards)) == 1 for rewards in compared)


def _group(id: str, number: int | None, episodes: tuple[EpisodeSummary, ...]) -> GroupSummary:
    valid = [episode for episode in episodes if episode.valid]
    flat = number is not None and _is_flat(valid)
    if flat:
        episodes = tuple(replace(e, flags=e.flags | {Flag.ZERO_VARIANCE}) for e in episodes)
    rewards = [episode.reward for episode in valid if episode.reward is not None]
    return GroupSummary(
        id=id,
        number=number,
        task_id=episodes[0].task_id,
        size=len(episodes),
        episodes=episodes,
        mean=fmean(rewards) if rewards else None,
        spread=stdev(rewards) if len(rewards) > 1 else None,
        zero_variance=flat,
    )
