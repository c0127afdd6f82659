"""Keeps an episode as it was, whatever a reward function does with what it is given.

The data types are frozen; what is mutable in them is a task's label and metadata, the `info` of
turns and the arguments of tool calls. A function of the user's gets copies of those.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from retrain.types import Action, Segment, Trajectory, Turn

_PLAIN = (str, int, float, bool, type(None))


def trusted(function: Callable[..., Any]) -> bool:
    """Whether a function is retrain's own, which changes nothing that it is given."""
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", "") or ""
    own = module == "retrain" or module.startswith("retrain.")
    return own and getattr(function, "function", None) is None


def shielded(trajectory: Trajectory) -> Trajectory:
    """The episode with copies of what is mutable in it; itself where that is nothing."""
    task = trajectory.task
    if task.metadata or not isinstance(task.label, _PLAIN):
        task = replace(
            task, label=copy.deepcopy(task.label), metadata=copy.deepcopy(dict(task.metadata))
        )
    segments = trajectory.segments
    if any(_mutable(turn) for segment in segments for turn in segment.turns):
        segments = tuple(map(_copied_segment, segments))
    if task is trajectory.task and segments is trajectory.segments:
        return trajectory
    return replace(trajectory, task=task, segments=segments)


def _mutable(turn: Turn) -> bool:
    return bool(turn.info) or any(call.arguments for call in turn.action.tool_calls)


def _copied_segment(segment: Segment) -> Segment:
    return replace(segment, turns=tuple(map(_copied_turn, segment.turns)))


def _copied_turn(turn: Turn) -> Turn:
    if not _mutable(turn):
        return turn
    return replace(turn, info=copy.deepcopy(dict(turn.info)), action=_copied_action(turn.action))


def _copied_action(action: Action) -> Action:
    calls = tuple(
        replace(call, arguments=copy.deepcopy(dict(call.arguments))) for call in action.tool_calls
    )
    return replace(action, tool_calls=calls)
