"""What the page is told, as JSON values; tokens travel in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from retrain.view.episode import Episode, Span, Stream
from retrain.view.groups import GroupSummary
from retrain.view.listing import FileHead, ListRow, LoneEpisode
from retrain.view.pictures import Pictures
from retrain.view.scan import SamplesFile
from retrain.view.summary import EpisodeSummary

Document = dict[str, Any]

MOST_TOKENS = 300_000
"""Tokens of one stream that a page gets; a browser does not live long with many more."""


def list_row(row: ListRow) -> Document:
    """A row of a list; `kind` says what it is of."""
    if isinstance(row, FileHead):
        return {"kind": "file", "shown": row.episodes, **file_document(row.file)}
    if isinstance(row, GroupSummary):
        return {"kind": "group", **group_document(row)}
    lone = isinstance(row, LoneEpisode)
    episode = row.episode if isinstance(row, LoneEpisode) else row
    return {"kind": "sample", "lone": lone, **summary_document(episode)}


def file_document(file: SamplesFile) -> Document:
    """A samples file: an iteration, or one evaluation."""
    rewards = [e.reward for e in file.episodes if e.valid and e.reward is not None]
    return {
        "file": file.name.stem,
        "split": file.name.split,
        "iteration": file.name.iteration,
        "episodes": sum(len(group.episodes) for group in file.groups),
        "groups": len(file.groups),
        "mean": sum(rewards) / len(rewards) if rewards else None,
    }


def group_document(group: GroupSummary) -> Document:
    """A group, with the reward of each of its episodes."""
    return {
        "id": group.id,
        "group": group.number,
        "task": group.task_id,
        "mean": group.mean,
        "spread": group.spread,
        "zero_variance": group.zero_variance,
        "rewards": [e.reward for e in group.episodes],
        "ids": [e.id for e in group.episodes],
    }


def summary_document(episode: EpisodeSummary) -> Document:
    """An episode in a list."""
    return {
        "id": episode.id,
        "split": episode.split,
        "iteration": episode.iteration,
        "group": episode.group,
        "slot": episode.slot,
        "agent": episode.agent,
        "task": episode.task_id,
        "status": episode.status,
        "stop": episode.stop_reason,
        "reward": episode.reward,
        "advantage": episode.advantage,
        "success": episode.success,
        "turns": episode.turns,
        "tokens": episode.tokens,
        "trained": episode.trained,
        "seconds": episode.seconds,
        "preview": episode.preview,
        "flags": sorted(episode.flags),
    }


def episode_document(episode: Episode, pictures: Pictures) -> Document:
    """A whole episode.

    Args:
        episode: The episode.
        pictures: Say which of its images are shown.
    """
    summary = episode.summary
    return {
        **summary_document(summary),
        "group_id": episode.group,
        "rewards": dict(summary.rewards),
        "trained_reward": summary.trained_reward,
        "normalised": dict(episode.normalised),
        "component_failures": dict(episode.component_failures),
        "mask_faults": list(summary.mask_faults),
        "streams": [_stream(stream, pictures) for stream in episode.streams],
        "prompt": episode.prompt,
        "label": episode.label,
        "metadata": episode.metadata,
        "seed": episode.seed,
        "waits": [asdict(wait) for wait in episode.waits],
        "error": episode.error,
        "weight_versions": list(episode.weight_versions),
    }


def _stream(stream: Stream, pictures: Pictures) -> Document:
    return {
        "ids": stream.ids[:MOST_TOKENS],
        "texts": stream.texts[:MOST_TOKENS],
        "mask": stream.mask[:MOST_TOKENS],
        "logprobs": _rounded(stream.logprobs[:MOST_TOKENS]),
        "trainer": _rounded(stream.trainer_logprobs[:MOST_TOKENS]),
        "spans": [_span(span) for span in stream.spans if span.start < MOST_TOKENS],
        "left_out": max(0, len(stream.ids) - MOST_TOKENS),
        "exact": stream.exact,
        "images": [pictures.document(image) for image in stream.images],
    }


def _span(span: Span) -> Document:
    return {
        "author": span.author,
        "turn": span.turn,
        "start": span.start,
        "end": min(span.end, MOST_TOKENS),
        "action": span.action,
        "finish": span.finish_reason,
        "versions": span.versions,
        "reward": span.reward,
        "info": span.info,
        "cached": span.cached_tokens,
    }


def _rounded(values: Sequence[float | None]) -> list[float | None] | None:
    """Six digits after the point; None where no value is known."""
    if all(value is None for value in values):
        return None
    return [None if value is None else round(value, 6) for value in values]
