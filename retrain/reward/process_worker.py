"""What a worker process does for a component with `run_in: process`: call the user's function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from retrain.reward.registry import REWARDS, STEP_REWARDS
from retrain.reward.taking import Takes
from retrain.reward.values import as_json
from retrain.types import Trajectory


def warm_up() -> None:
    """Import and build what every call needs, before workers are forked."""
    episodes()


@cache
def episodes() -> TypeAdapter[list[Trajectory]]:
    """Episodes as JSON values, and back."""
    return TypeAdapter(list[Trajectory])


def call(takes: str, path: str, params: Mapping[str, Any], given: Sequence[Any]) -> Any:
    """Call a reward function.

    Args:
        takes: What it takes (`Takes`).
        path: Its name, or its import path.
        params: Its keyword arguments.
        given: The episodes, as `episodes` dumps them; one, where it takes no more.

    Returns:
        What it gives, as JSON values; for a function of turns a list of that.
    """
    function = _load(takes, path)
    trajectories = episodes().validate_python(list(given))
    if takes in (Takes.EPISODES, Takes.GROUP):
        return as_json(_call(function, trajectories, **params))
    (trajectory,) = trajectories
    if takes == Takes.TURN:
        return [as_json(_call(function, turn, trajectory, **params)) for turn in trajectory.turns]
    return as_json(_call(function, trajectory, **params))


@cache
def _load(takes: str, path: str) -> Callable[..., Any]:
    return (STEP_REWARDS if takes == Takes.TURN else REWARDS).get(path)


def _call(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    value = function(*args, **params)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value
