"""A group's episodes side by side, as texts."""

from __future__ import annotations

from retrain.errors import DataError
from retrain.view.documents import Document, group_document, summary_document
from retrain.view.episode import Stream
from retrain.view.groups import GroupSummary
from retrain.view.index import RunIndex
from retrain.view.reading import read_episode
from retrain.view.summary import EpisodeSummary

LONGEST_TEXT = 20_000
"""Characters of one span that are shown side by side; the episode's own page shows all."""
MOST_EPISODES = 64


def compare_group(index: RunIndex, id: str) -> Document:
    """The episodes of a group, each as its spans' texts.

    Args:
        index: The run.
        id: FILE@GROUP, such as "12@96".

    Raises:
        DataError: There is no such group.
    """
    group = _find(index, id)
    shown = group.episodes[:MOST_EPISODES]
    return {
        **group_document(group),
        "episodes": [_told(index, episode) for episode in shown],
        "left_out": len(group.episodes) - len(shown),
    }


def _find(index: RunIndex, id: str) -> GroupSummary:
    file = index.file(id.rpartition("@")[0])
    for group in file.groups if file else ():
        if group.id == id:
            return group
    raise DataError(f"{index.folder}: holds no group {id!r:.80}; it is called FILE@GROUP")


def _told(index: RunIndex, summary: EpisodeSummary) -> Document:
    """The texts of one episode; why there are none, where it cannot be read."""
    problem, spans = None, []
    try:
        episode = read_episode(index, summary.id)
        spans = [span for stream in episode.streams for span in _spans(stream)]
    except DataError as error:
        problem = str(error)
    return {
        **summary_document(summary),
        "rewards": dict(summary.rewards),
        "spans": spans,
        "problem": problem,
    }


def _spans(stream: Stream) -> list[Document]:
    return [
        {
            "author": span.author,
            "turn": span.turn,
            "text": stream.text(span)[:LONGEST_TEXT],
            "cut": max(0, len(stream.text(span)) - LONGEST_TEXT),
            "trained": sum(stream.mask[span.start : span.end]),
        }
        for span in stream.spans
        if span.author != "prompt"
    ]
