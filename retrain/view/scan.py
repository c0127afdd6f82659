"""One samples file, summarised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from retrain.view.fields import Fields, column, mapping, objects, whole
from retrain.view.groups import GroupSummary, group_up
from retrain.view.lines import BrokenLine, Place, parse_line, read_places
from retrain.view.mask_check import mask_faults
from retrain.view.summary import NOTES, EpisodeSummary, summarise

_NAME = re.compile(r"(?:(?P<split>[\w.-]+)-)?(?P<iteration>\d+)\.jsonl", re.ASCII)
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class SamplesName:
    """What the name of a samples file says.

    Attributes:
        stem: The name without its ending.
        split: "train", or the evaluation's name.
        iteration: The iteration.
    """

    stem: str
    split: str
    iteration: int

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts by iteration; an evaluation follows the training it comes after."""
        return self.iteration, int(self.split != "train"), self.split


@dataclass(frozen=True, slots=True)
class SamplesFile:
    """A samples file, summarised.

    Attributes:
        name: What its name says.
        path: Where it is.
        groups: Its groups, in the order written.
        problems: What could not be read, with file and line.
    """

    name: SamplesName
    path: Path
    groups: tuple[GroupSummary, ...]
    problems: tuple[str, ...]

    @property
    def episodes(self) -> Iterator[EpisodeSummary]:
        """Its episodes, in the order written."""
        return (episode for group in self.groups for episode in group.episodes)


def samples_name(path: Path) -> SamplesName | None:
    """What a file's name says; None where it is no samples file."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    return SamplesName(path.stem, match["split"] or "train", int(match["iteration"]))


def scan(path: Path, name: SamplesName) -> SamplesFile:
    """Summarise a samples file; what cannot be read becomes a problem, and the rest is kept."""
    episodes: list[EpisodeSummary] = []
    problems: list[str] = []
    try:
        for place, raw in read_places(path):
            try:
                _add(episodes, name, place, parse_line(raw))
            except BrokenLine as error:
                problems.append(f"samples/{path.name}, line {place.number}: {error}")
    except OSError as error:
        problems.append(f"samples/{path.name}: cannot be read: {error.strerror or error}")
    hidden = len(problems) - _MOST_PROBLEMS
    if hidden > 0:
        problems[_MOST_PROBLEMS:] = [f"samples/{path.name}: {hidden} more lines like these"]
    return SamplesFile(name, path, group_up(name.stem, episodes), tuple(problems))


def _add(episodes: list[EpisodeSummary], name: SamplesName, place: Place, row: Fields) -> None:
    notes = mapping(mapping(row, "metadata"), NOTES)
    if whole(notes, "segment") and episodes:
        episodes[-1] = _extended(episodes[-1], place, row, objects(notes, "turns"))
        return
    id = f"{name.stem}.{place.number}"
    episodes.append(summarise(id, name.split, name.iteration, place, row))


def _extended(
    episode: EpisodeSummary, place: Place, row: Fields, turns: list[Fields]
) -> EpisodeSummary:
    """An episode with one more segment."""
    return replace(
        episode,
        turns=episode.turns + len(turns),
        tokens=episode.tokens + len(column(row, "tokens")),
        trained=episode.trained + column(row, "loss_mask").count(1),
        mask_faults=episode.mask_faults + mask_faults(row, turns),
        places=(*episode.places, place),
    )
