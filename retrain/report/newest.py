"""The newest episodes of a run, and which of them to look at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrain.view.index import RunIndex
from retrain.view.scan import SamplesFile
from retrain.view.summary import EpisodeSummary, Flag

MOST_BYTES = 64 * 1024**2
"""How much of the samples is read to sum a run up; an iteration that was begun is read whole."""


@dataclass(frozen=True, slots=True)
class Pick:
    """An episode worth a look.

    Attributes:
        role: Why: best, median, worst, or failed.
        episode: The episode.
    """

    role: str
    episode: EpisodeSummary


def index_until(folder: Path, enough: Callable[[SamplesFile], bool]) -> RunIndex:
    """An index of the newest samples, up to and including the file that is `enough`."""
    index = RunIndex(folder)
    for file in index.refresh():
        if enough(file):
            break
    return index


def newest_index(folder: Path, most: int = MOST_BYTES) -> RunIndex:
    """An index of the newest samples: about `most` bytes, and at least one file of training."""
    read, trained = 0, False

    def enough(file: SamplesFile) -> bool:
        nonlocal read, trained
        read += file.path.stat().st_size if file.path.exists() else 0
        trained = trained or file.name.split == "train"
        return trained and read >= most

    return index_until(folder, enough)


def newest_file(index: RunIndex, split: str) -> SamplesFile | None:
    """The newest file of a split that holds episodes."""
    files = [file for file in index.files if file.name.split == split and file.groups]
    return files[-1] if files else None


def picks(index: RunIndex) -> list[Pick]:
    """The best, median and worst episode of the newest iteration, and the newest that failed.

    Episodes of the same reward go by their length, so that the choice is always the same.
    """
    splits = sorted({file.name.split for file in index.files}, key=lambda name: name != "train")
    file = next((found for name in splits if (found := newest_file(index, name))), None)
    episodes = [] if file is None else list(file.episodes)
    known = [episode for episode in episodes if episode.valid and episode.reward is not None]
    ordered = sorted(known, key=lambda e: (e.reward or 0.0, -e.tokens, e.id))
    places = {"best": len(ordered) - 1, "median": len(ordered) // 2, "worst": 0}
    chosen: dict[int, str] = {}
    for role, place in places.items():
        if ordered:
            chosen.setdefault(place, role)
    failed = _newest_failed(index)
    last = [] if failed is None else [Pick("failed", failed)]
    return [*(Pick(role, ordered[place]) for place, role in chosen.items()), *last]


def _newest_failed(index: RunIndex) -> EpisodeSummary | None:
    for file in reversed(index.files):
        for episode in file.episodes:
            if Flag.FAILED in episode.flags:
                return episode
    return None


def failure_reasons(index: RunIndex) -> Sequence[tuple[str, int]]:
    """Why episodes failed, the most frequent reason first."""
    reasons = Counter(
        episode.error or "no reason was recorded"
        for episode in index.episodes
        if Flag.FAILED in episode.flags
    )
    return reasons.most_common()
