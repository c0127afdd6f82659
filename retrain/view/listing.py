"""`Listing`: the rows of a list under a query, flat, so that any part of it can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from retrain.view.groups import GroupSummary
from retrain.view.index import RunIndex
from retrain.view.query import SORT_KEYS, Order, Query
from retrain.view.scan import SamplesFile
from retrain.view.search import episodes_with
from retrain.view.summary import EpisodeSummary


@dataclass(frozen=True, slots=True)
class FileHead:
    """The row above the groups of a samples file.

    Attributes:
        file: The file.
        episodes: How many of its episodes are in the list.
    """

    file: SamplesFile
    episodes: int


@dataclass(frozen=True, slots=True)
class LoneEpisode:
    """An episode that stands in the list without its group above it.

    Attributes:
        episode: The episode.
    """

    episode: EpisodeSummary


ListRow = FileHead | GroupSummary | EpisodeSummary | LoneEpisode


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a list.

    Attributes:
        rows: Heads of files and groups, and episodes; a group holds only what the query admits.
        episodes: How many episodes there are among them.
    """

    rows: Sequence[ListRow]
    episodes: int

    def place_of(self, id: str | None) -> int:
        """Which row an episode is; -1 where it is none."""
        if id is None:
            return -1
        return next((n for n, row in enumerate(self.rows) if _episode_id(row) == id), -1)


def list_episodes(index: RunIndex, query: Query) -> Listing:
    """List what a query admits; grouped in the order of the run, flat in every other order."""
    files = [file for file in index.files if query.file in (None, file.name.stem)]
    if query.order is Order.NEWEST:
        files.reverse()
    admitted = ((file, tuple(_groups(file, query))) for file in files)
    if query.order in SORT_KEYS:
        episodes = [e for _, groups in admitted for group in groups for e in group.episodes]
        episodes.sort(key=SORT_KEYS[query.order])
        return Listing([LoneEpisode(episode) for episode in episodes], len(episodes))
    rows: list[ListRow] = []
    total = 0
    for file, groups in admitted:
        count = sum(len(group.episodes) for group in groups)
        if count:
            rows.append(FileHead(file, count))
            total += count
        for group in groups:
            rows += rows_of(group)
    return Listing(rows, total)


def rows_of(group: GroupSummary) -> list[ListRow]:
    """A group's rows: a group of one, as evaluations have, needs no head."""
    if group.size == 1:
        return [LoneEpisode(group.episodes[0])]
    return [group, *group.episodes]


def _episode_id(row: ListRow) -> str | None:
    if isinstance(row, LoneEpisode):
        return row.episode.id
    return row.id if isinstance(row, EpisodeSummary) else None


def _groups(file: SamplesFile, query: Query) -> Iterator[GroupSummary]:
    found = {episode.id for episode in _matching(file, query)}
    for group in file.groups:
        members = tuple(episode for episode in group.episodes if episode.id in found)
        if len(members) == len(group.episodes):
            yield group
        elif members:
            yield replace(group, episodes=members)


def _matching(file: SamplesFile, query: Query) -> Iterator[EpisodeSummary]:
    admitted = [episode for episode in file.episodes if query.admits(episode)]
    if not query.words or not admitted:
        return iter(admitted)
    return episodes_with(file.path, admitted, query.words)
