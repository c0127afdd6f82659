"""Assignments of reviewers to papers: their value, and the best one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from retrain.errors import MissingDependency

try:
    from scipy.optimize import linear_sum_assignment
except ModuleNotFoundError as error:
    raise MissingDependency(
        "the matching game needs SciPy; install it with: pip install 'retrain[matching]'"
    ) from error

Assignment: TypeAlias = tuple[int, ...]
"""The paper of each reviewer, by index."""

Scores: TypeAlias = Sequence[Sequence[float]]
"""[reviewers][papers]"""


def value_of(scores: Scores, assignment: Assignment) -> float:
    """The sum of an assignment's scores."""
    return sum(row[paper] for row, paper in zip(scores, assignment, strict=True))


def best_assignment(scores: Scores) -> Assignment:
    """An assignment of the largest value.

    Source: Crouse, "On implementing 2D rectangular assignment algorithms", 2016, as in SciPy.
    """
    _, papers = linear_sum_assignment(scores, maximize=True)
    return tuple(int(paper) for paper in papers)
