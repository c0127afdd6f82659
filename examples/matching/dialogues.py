"""Reads the dialogues of a run: what was asked in each, and what it earned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.config.document import read_document
from retrain.errors import DataError
from retrain.report.jsonl import read_lines
from retrain.report.metrics import read_metrics

from .messages import IllegalMove, Tag, read_said
from .names import PAPERS, REVIEWERS, Names
from .questions import Questions, count_questions, total

NAMES = Names(REVIEWERS, PAPERS)
_MARKERS = re.compile(r"<\|[^|>]*\|>(?:\w+\n)?")
"""Special tokens, and the role that follows one; they are no part of what was said."""

Curve = dict[int, float]
"""Values by iteration."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One episode.

    Attributes:
        iteration: When it was played.
        group: Which group of the run it belongs to: all of a group play one game.
        reward: What it earned, 0 to 1.
        turns: How many turns the model took.
        questions: What the model asked in all of them.
        lines: Who said what, after the prompt.
    """

    iteration: int
    group: int
    reward: float
    turns: int
    questions: Questions
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The dialogues of a run's last stage.

    Attributes:
        label: The backend's name, with the folder's where several runs have one backend.
        dialogues: In the order played.
        held_out: The evaluation's metrics by name, "reward" and "questions".
    """

    label: str
    dialogues: tuple[Dialogue, ...]
    held_out: Mapping[str, Curve]


def read_run(folder: Path) -> Run:
    """Read a run folder, or the folder of one of its stages.

    Raises:
        DataError: There are no dialogues in it.
    """
    stage = _stage(folder)
    files = [path for path in (stage / "samples").glob("*.jsonl") if path.stem.isdecimal()]
    files.sort(key=lambda path: int(path.stem))
    dialogues = tuple(one for path in files for one in _dialogues(path))
    if not dialogues:
        raise DataError(f"{stage / 'samples'}: holds no dialogues")
    held_out: dict[str, Curve] = {"reward": {}, "questions": {}}
    for row in read_metrics(stage / "metrics.jsonl"):
        for name, key in (("reward", "environment"), ("questions", "questions")):
            value = row.values.get(f"eval/reward/{key}")
            if value is not None:
                held_out[name][row.iteration] = value
    content, _ = read_document(stage / "config.yaml")
    return Run(content["algorithm"]["backend"], dialogues, held_out)


def _stage(folder: Path) -> Path:
    """The last stage that played episodes; a run without stages is one itself."""
    stages = [path.parent for path in folder.glob("stages/*/samples") if any(path.glob("*.jsonl"))]
    latest = max(stages, key=lambda path: path.stat().st_mtime, default=folder)
    if not (latest / "samples").is_dir():
        raise DataError(f"{folder}: is no run folder: it has neither samples/ nor stages/")
    return latest


def _dialogues(path: Path) -> Iterator[Dialogue]:
    for line in read_lines(path):
        if line.value is not None and not line.value["remove_sample"]:
            yield _dialogue(int(path.stem), line.value)


def _dialogue(iteration: int, row: Mapping[str, Any]) -> Dialogue:
    lines = tuple(
        (turn["from"], _MARKERS.sub("", turn["text"]).strip()) for turn in row["turns"][1:]
    )
    said = [text for who, text in lines if who == "model"]
    return Dialogue(
        iteration,
        row["group_index"],
        row["rewards"]["environment"],
        len(said),
        total(map(_asked, said)),
        lines,
    )


def _asked(turn: str) -> Questions:
    """The questions of one turn; only what the partner hears counts."""
    try:
        said = read_said(turn)
    except IllegalMove:
        return Questions()
    return count_questions(said.text, NAMES) if said.tag is Tag.MESSAGE else Questions()
