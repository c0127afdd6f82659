"""Finding words in the texts of episodes without keeping the texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from retrain.view.fields import Fields, objects, text
from retrain.view.lines import BrokenLine, Place, parse_line
from retrain.view.summary import EpisodeSummary


def episodes_with(
    path: Path, episodes: Sequence[EpisodeSummary], words: str
) -> Iterator[EpisodeSummary]:
    """The episodes of a file whose task's name or text has some words.

    A row's bytes are looked through first, and it is parsed only where they hold the words.

    Args:
        path: The samples file.
        episodes: Those to look at, in the order of the file.
        words: What to find; the case of A to Z does not count.
    """
    wanted = words.lower()
    needle = json.dumps(words, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass").lower()
    try:
        with path.open("rb") as file:
            for episode in episodes:
                if wanted in episode.task_id.lower() or any(
                    _has(_raw(file, place), needle, wanted) for place in episode.places
                ):
                    yield episode
    except OSError:
        return


def _raw(file: BinaryIO, place: Place) -> bytes:
    file.seek(place.offset)
    return file.read(place.size)


def _has(raw: bytes, needle: bytes, wanted: str) -> bool:
    if needle not in raw.lower():
        return False
    try:
        row = parse_line(raw)
    except BrokenLine:
        return False
    return any(wanted in words.lower() for words in _texts(row))


def _texts(row: Fields) -> Iterator[str]:
    turns = [said for turn in objects(row, "turns") if (said := text(turn, "text"))]
    yield from turns or [text(row, "response") or ""]
    yield text(row, "error") or ""
