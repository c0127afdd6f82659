"""Verifiers: conditions that an episode must meet for a component to count."""

from __future__ import annotations

from retrain.sample import Status
from retrain.types import Trajectory


def completed(trajectory: Trajectory) -> bool:
    """Whether the episode came to its own end, rather than to a limit."""
    return trajectory.status is Status.COMPLETED


def used_tool(trajectory: Trajectory) -> bool:
    """Whether the model called a tool."""
    return any(turn.action.tool_calls for turn in trajectory.turns)


def no_parse_error(trajectory: Trajectory) -> bool:
    """Whether every tool call that the model wrote could be read."""
    return all(turn.action.parse_error is None for turn in trajectory.turns)
