"""`GroupRequest`: one group that is to be collected."""

from __future__ import annotations

from dataclasses import dataclass

from retrain.types import Task


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One visit to one task.

    Attributes:
        index: Which group of the run, counted from 0.
        task: The task to play.
        visit: How often the task had been drawn before.
    """

    index: int
    task: Task
    visit: int
