"""What a reward function is called with: a turn, an episode, many of them, or a whole group."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from retrain.types import Trajectory

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "retrain_takes"


class Takes(StrEnum):
    """What one call of a reward function is for."""

    TURN = "turn"
    EPISODE = "episode"
    EPISODES = "episodes"
    GROUP = "group"


def batch_reward(function: F) -> F:
    """Mark a function of many episodes: `(trajectories, **params) -> list[float | None]`.

    A first parameter of the name `trajectories`, or of a type such as `list[Trajectory]`, says the
    same. A call may hold episodes of several groups, and a part of a group.
    """
    setattr(function, _MARK, Takes.EPISODES)
    return function


def group_reward(function: F) -> F:
    """Mark a function of one whole group: `(trajectories, **params) -> list[float | None]`.

    A first parameter of the name `group` says the same. It gets the scored episodes of one visit to
    one task, never a part of them: those that failed are missing.
    """
    setattr(function, _MARK, Takes.GROUP)
    return function


def takes_of(function: Callable[..., Any]) -> Takes:
    """What a reward function over episodes takes: by its mark, its first parameter's name or type.

    Args:
        function: A rollout reward, as the calculator calls it.
    """
    marked = getattr(function, _MARK, None)
    if marked is not None:
        return Takes(marked)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        return Takes.EPISODE
    if first.name == "group":
        return Takes.GROUP
    many = first.name == "trajectories" or _many(_hint(function, first))
    return Takes.EPISODES if many else Takes.EPISODE


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    while isinstance(function, partial):
        function = function.func
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(target).get(parameter.name)
    except (NameError, TypeError, AttributeError):
        return parameter.annotation


def _many(hint: Any) -> bool:
    """Whether a type is a list, sequence or iterable of trajectories."""
    if isinstance(hint, str):
        return hint.endswith("[Trajectory]") or hint.endswith("[Trajectory, ...]")
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)[:1]
    sequences = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
    return origin in sequences and inner == (Trajectory,)
