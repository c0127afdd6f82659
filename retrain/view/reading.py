"""Reading one whole episode from its rows, when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from retrain.errors import DataError
from retrain.view.episode import Episode, Stream, Wait
from retrain.view.fields import Fields, mapping, number, numbers, objects, text, whole
from retrain.view.index import RunIndex
from retrain.view.lines import BrokenLine, reread
from retrain.view.stream import read_stream, turn_count
from retrain.view.summary import NOTES
from retrain.view.trainer_logprobs import trainer_logprobs


def read_rows(index: RunIndex, id: str) -> list[Fields]:
    """The rows of an episode as they stand in the file, one per segment.

    Raises:
        DataError: There is no such episode, or its file was replaced meanwhile.
    """
    file, _, episode = index.find(id)
    return [reread(file.path, place) for place in episode.places]


def read_episode(index: RunIndex, id: str) -> Episode:
    """Read an episode.

    Args:
        index: The run.
        id: FILE.LINE, such as "12.3": `EpisodeSummary.id`.

    Raises:
        DataError: There is no such episode, its file was replaced meanwhile, or it is damaged.
    """
    file, group, summary = index.find(id)
    rows = [reread(file.path, place) for place in summary.places]
    try:
        streams = _streams(rows, trainer_logprobs(index.folder, file.name, rows))
    except BrokenLine as error:
        raise DataError(f"{file.path}, line {summary.places[0].number}: {error}") from error
    first = rows[0]
    notes = mapping(mapping(first, "metadata"), NOTES)
    played = mapping(notes, "trajectory")
    return Episode(
        summary=summary,
        group=group.id,
        streams=streams,
        prompt=first.get("prompt"),
        label=first.get("label"),
        metadata={k: v for k, v in mapping(first, "metadata").items() if k != NOTES},
        seed=mapping(first, "seed"),
        normalised=numbers(first, "rewards_normalised"),
        component_failures=_texts(mapping(played, "scoring"), "failures"),
        waits=tuple(_wait(timing) for timing in objects(played, "timings")),
        error=mapping(played, "error"),
        weight_versions=_versions(streams),
    )


def _streams(rows: Sequence[Fields], trainer: Sequence[Sequence[Any] | None]) -> tuple[Stream, ...]:
    before = [0, *accumulate(turn_count(row) for row in rows)]
    return tuple(
        read_stream(row, turn, logprobs)
        for row, turn, logprobs in zip(rows, before, trainer, strict=False)
    )


def _wait(timing: Fields) -> Wait:
    turn = whole(timing, "turn")
    return Wait(
        kind=text(timing, "kind") or "",
        turn=-1 if turn is None else turn,
        start=number(timing, "start") or 0.0,
        seconds=number(timing, "seconds") or 0.0,
    )


def _texts(owner: Fields, name: str) -> dict[str, str]:
    return {key: str(value) for key, value in mapping(owner, name).items()}


def _versions(streams: Sequence[Stream]) -> tuple[str, ...]:
    found = (name for s in streams for span in s.spans for _, name in span.versions)
    return tuple(dict.fromkeys(found))
