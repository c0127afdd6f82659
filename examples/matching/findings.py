"""What the dialogues of a run say about the hypothesis that the model learns to ask."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation, fmean, stdev

from .dialogues import Dialogue, Run

WINDOW = 10
"""Iterations at each end of a run that are compared."""


@dataclass(frozen=True, slots=True)
class Period:
    """The means of some iterations' dialogues.

    Attributes:
        dialogues: How many there are.
        reward: Reward.
        questions: Questions of a dialogue.
        error: Standard error of `questions`, over iterations.
        pairs: Questions about exactly one pair.
        marks: Question marks.
        words: Question words.
        seeking: Phrases that ask for a score.
        turns: Turns of the model.
    """

    dialogues: int
    reward: float
    questions: float
    error: float
    pairs: float
    marks: float
    words: float
    seeking: float
    turns: float


@dataclass(frozen=True, slots=True)
class Findings:
    """One run's numbers.

    Attributes:
        first: The first iterations.
        last: The last ones.
        overall: Pearson's correlation of questions and reward over all dialogues.
        within: The same within games: deviations from the means of the group, which played one
            game with one policy.
    """

    first: Period
    last: Period
    overall: float
    within: float

    @property
    def grown(self) -> float:
        """How many questions more a dialogue has at the end."""
        return self.last.questions - self.first.questions

    @property
    def deviations(self) -> float:
        """The growth in standard errors of the difference."""
        error = math.hypot(self.first.error, self.last.error)
        if error == 0:
            return math.copysign(math.inf, self.grown) if self.grown else 0.0
        return self.grown / error


def findings_of(run: Run) -> Findings:
    """Compute a run's numbers."""
    iterations = sorted({dialogue.iteration for dialogue in run.dialogues})
    return Findings(
        period(run.dialogues, iterations[:WINDOW]),
        period(run.dialogues, iterations[-WINDOW:]),
        pearson((d.questions.asked, d.reward) for d in run.dialogues),
        pearson(_deviations(run.dialogues)),
    )


def period(dialogues: Sequence[Dialogue], iterations: Sequence[int]) -> Period:
    """The means over some iterations."""
    among = set(iterations)
    chosen = [dialogue for dialogue in dialogues if dialogue.iteration in among]
    asked = [dialogue.questions for dialogue in chosen]
    return Period(
        len(chosen),
        fmean(dialogue.reward for dialogue in chosen),
        fmean(one.asked for one in asked),
        _error(chosen),
        fmean(one.pairs for one in asked),
        fmean(one.marks for one in asked),
        fmean(one.words for one in asked),
        fmean(one.seeking for one in asked),
        fmean(dialogue.turns for dialogue in chosen),
    )


def by_iteration(dialogues: Iterable[Dialogue]) -> dict[int, list[Dialogue]]:
    """The dialogues of each iteration."""
    found: dict[int, list[Dialogue]] = defaultdict(list)
    for dialogue in dialogues:
        found[dialogue.iteration].append(dialogue)
    return dict(sorted(found.items()))


def pearson(points: Iterable[tuple[float, float]]) -> float:
    """Pearson's correlation; NaN where one side never varies."""
    pairs = list(points)
    try:
        return correlation([x for x, _ in pairs], [y for _, y in pairs])
    except StatisticsError:
        return math.nan


def _error(dialogues: Sequence[Dialogue]) -> float:
    means = [
        fmean(dialogue.questions.asked for dialogue in played)
        for played in by_iteration(dialogues).values()
    ]
    return stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0


def _deviations(dialogues: Iterable[Dialogue]) -> Iterable[tuple[float, float]]:
    groups: dict[int, list[Dialogue]] = defaultdict(list)
    for dialogue in dialogues:
        groups[dialogue.group].append(dialogue)
    for played in groups.values():
        asked = fmean(dialogue.questions.asked for dialogue in played)
        reward = fmean(dialogue.reward for dialogue in played)
        for dialogue in played:
            yield dialogue.questions.asked - asked, dialogue.reward - reward
