"""Which episodes a single file holds, and everything that its page may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from retrain.errors import DataError
from retrain.view.album import Album
from retrain.view.answers import Answers
from retrain.view.documents import Document, list_row
from retrain.view.following import Following
from retrain.view.groups import GroupSummary
from retrain.view.index import RunIndex
from retrain.view.listing import FileHead, rows_of
from retrain.view.runs import RunPlace
from retrain.view.scan import SamplesFile

MOST_TOKENS = 1_500_000
"""Tokens of all episodes in a file: about 60 MB, which browsers still open."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a file holds of the runs.

    Attributes:
        document: The data of its page.
        episodes: How many episodes it holds.
        of: How many there are.
    """

    document: Document
    episodes: int
    of: int


def pack(places: Sequence[RunPlace], title: str, most: int, images: Sequence[Path] = ()) -> Packed:
    """Collect what a file holds; the last run is served first.

    Args:
        places: The runs.
        title: What the page calls them together.
        most: Most episodes, all runs together.
        images: Folders beside the runs' whose pictures may be shown.
    """
    runs, held, total, album = [], 0, 0, Album()
    for place in reversed(places):
        following = Following(place)
        following.look()
        chosen = choose(following.index, most - held)
        runs.append(_run(Answers(following, images), chosen, album))
        held += sum(len(group.episodes) for _, group in chosen)
        total += following.index.state.episodes
    return Packed({"title": title, "runs": runs[::-1]}, held, total)


def choose(index: RunIndex, most: int) -> list[tuple[SamplesFile, GroupSummary]]:
    """Whole groups, spread evenly over the run: the last file, the first and those between.

    Args:
        index: The run.
        most: Most episodes; groups that do not fit any more are left out, but for the first.
    """
    files = [file for file in index.files if file.groups]
    if not files or most < 1:
        return []
    size = max(len(group.episodes) for file in files for group in file.groups)
    count = max(1, min(len(files), most // size))
    step = (len(files) - 1) / max(1, count - 1)
    spread = [files[len(files) - 1 - round(n * step)] for n in range(count)]
    chosen: list[tuple[SamplesFile, GroupSummary]] = []
    tokens = 0
    for file, group in _by_turns(spread):
        more = sum(episode.tokens for episode in group.episodes)
        if not chosen or (len(group.episodes) <= most and tokens + more <= MOST_TOKENS):
            chosen.append((file, group))
            most -= len(group.episodes)
            tokens += more
    return sorted(chosen, key=lambda pair: pair[0].name.order)


def _by_turns(files: Sequence[SamplesFile]) -> Iterator[tuple[SamplesFile, GroupSummary]]:
    for groups in zip_longest(*(file.groups for file in files)):
        yield from ((file, g) for file, g in zip(files, groups, strict=True) if g is not None)


def _run(
    answers: Answers, chosen: Sequence[tuple[SamplesFile, GroupSummary]], album: Album
) -> Document:
    ids = [episode.id for _, group in chosen for episode in group.episodes]
    groups = [group.id for _, group in chosen]
    run = answers.run()
    if len(ids) < run["episodes"]:
        run["note"] = (
            f"This file holds {len(ids)} of {run['episodes']} episodes: whole groups, spread over "
            "the run."
        )
    episodes = dict(_told(answers.episode, ids))
    return {
        "name": answers.following.place.name,
        "run": run,
        "charts": answers.charts(),
        "rows": list(_rows(chosen)),
        "episodes": episodes,
        "images": album.collect(answers, episodes),
        "raw": dict(_told(answers.raw, ids)),
        "groups": dict(_told(answers.group, groups)),
    }


def _told(ask: Callable[[str], Document], ids: Iterable[str]) -> Iterator[tuple[str, Document]]:
    """What can be told; the page says of the rest that the file does not hold it."""
    for id in ids:
        try:
            yield id, ask(id)
        except DataError:  # damaged, too long to show, or replaced meanwhile
            continue


def _rows(chosen: Sequence[tuple[SamplesFile, GroupSummary]]) -> Iterator[Document]:
    above = None
    for file, group in chosen:
        if file is not above:
            shown = sum(len(g.episodes) for other, g in chosen if other is file)
            yield list_row(FileHead(file, shown))
            above = file
        yield from map(list_row, rows_of(group))
