"""A run, an iteration or an episode, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.report.record import RunRecord
    from retrain.view.index import RunIndex
    from retrain.view.summary import EpisodeSummary


def document(
    record: RunRecord, index: RunIndex, *, sample: str | None, iteration: int | None
) -> str:
    """One JSON document.

    Args:
        record: The run.
        index: Its samples, as far as they are asked for.
        sample: An episode: its rows as they stand in the file.
        iteration: The episodes of an iteration.

    Raises:
        DataError: There is no such episode.
    """
    from retrain.report.newest import picks
    from retrain.view.reading import read_rows

    found: dict[str, Any] = {"run": str(record.folder), "title": record.title}
    if sample is not None:
        found["rows"] = read_rows(index, sample)
    elif iteration is not None:
        episodes = [episode for episode in index.episodes if episode.iteration == iteration]
        found["episodes"] = _rows(episodes)
    else:
        found |= {
            "backend": record.backend,
            "state": str(record.state),
            "iterations": record.iterations,
            "planned": record.planned,
            "seconds": record.seconds,
            "metrics": [{"iteration": row.iteration, **row.values} for row in record.rows],
            "episodes": [{"role": p.role, **_row(p.episode)} for p in picks(index)],
        }
    found["problems"] = [*record.problems, *index.problems]
    return json.dumps(found, indent=2)


def _rows(episodes: Sequence[EpisodeSummary]) -> list[dict[str, Any]]:
    return [_row(episode) for episode in episodes]


def _row(episode: EpisodeSummary) -> dict[str, Any]:
    return {
        "sample": episode.id,
        "split": episode.split,
        "iteration": episode.iteration,
        "group": episode.group,
        "task": episode.task_id,
        "status": episode.status,
        "reward": episode.reward,
        "rewards": dict(episode.rewards),
        "advantage": episode.advantage,
        "success": episode.success,
        "turns": episode.turns,
        "tokens": episode.tokens,
        "trained": episode.trained,
        "flags": sorted(episode.flags),
        "error": episode.error,
    }
