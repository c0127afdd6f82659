"""`Asker`: a player that asks about some pairs, and then proposes what is best on what it knows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from .assignment import Assignment, best_assignment, value_of
from .board import View
from .names import Names
from .prompts import list_scores

_TOLD = re.compile(r"^\[message\] (.*): ([0-9]+)$")


class Asker:
    """Asks about what it does not see, in reading order, and once more after every rejection.

    It takes the partner's numbers as they are, so both factors should be the same.

    Args:
        view: What it sees.
        questions: How many pairs it asks about at first.
        unseen: What it takes a score for that it does not know.
        thinks: Whether it writes down, before the tag of a proposal, what it knows and what each
            assignment is worth by it. Nobody hears that; there are size! of them.
    """

    def __init__(self, view: View, questions: int, unseen: int, *, thinks: bool = False) -> None:
        self._names = view.names
        self._thinks = thinks
        self._scores = [[unseen if n is None else n for n in row] for row in view.scores]
        self._hidden = [
            (reviewer, paper)
            for reviewer, row in enumerate(view.scores)
            for paper, score in enumerate(row)
            if score is None
        ]
        self._ask = questions

    def turn(self, heard: str | None) -> str:
        """Take the next turn.

        Args:
            heard: What was said to its last turn; None at first.
        """
        self._learn(heard or "")
        self._ask += heard == "[reject]"
        if self._ask and self._hidden:
            self._ask -= 1
            reviewer, paper = self._hidden.pop(0)
            about = f"{self._names.reviewer(reviewer)} on {self._names.paper(paper)}"
            return f"[message] {about}?"
        if self._thinks:
            return think(self._scores, self._names)
        return f"[propose] {write_proposal(best_assignment(self._scores), self._names)}"

    def _learn(self, heard: str) -> None:
        told = _TOLD.match(heard)
        if told:
            (reviewer,) = self._names.mentioned(told[1], "reviewer")
            (paper,) = self._names.mentioned(told[1], "paper")
            self._scores[reviewer][paper] = int(told[2])


def think(scores: Sequence[Sequence[int]], names: Names) -> str:
    """A proposal with the thoughts before it: all scores, every assignment's sum, the best sum.

    Args:
        scores: [reviewers][papers] what is known or taken for known.
        names: Who is assigned to what.
    """
    known = View(tuple(map(tuple, scores)), names)
    assignments = list(itertools.permutations(range(names.size)))
    sums = [int(value_of(scores, assignment)) for assignment in assignments]
    written = [write_proposal(assignment, names) for assignment in assignments]
    lines = [f"{one} = {worth:02d}" for one, worth in zip(written, sums, strict=True)]
    best = written[sums.index(max(sums))]
    return "\n".join([list_scores(known), *lines, f"best {max(sums):02d}", f"[propose] {best}"])


def write_proposal(assignment: Assignment, names: Names) -> str:
    """Write a proposal as `parse_proposal` reads it, in the order of the reviewers."""
    pairs: Sequence[str] = [
        f"{names.reviewer(reviewer)}: {names.paper(paper)}"
        for reviewer, paper in enumerate(assignment)
    ]
    return ", ".join(pairs)
