"""Calls a component's function: awaited, in a thread, or in a process that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrain.errors import EpisodeFailure, RewardFailure, boundary
from retrain.reward.components import RewardComponent
from retrain.reward.registry import Verifier
from retrain.reward.shielding import shielded, trusted
from retrain.reward.taking import Takes
from retrain.threads import DaemonThreads, call, call_in_thread, is_async
from retrain.types import Trajectory

_THREADS = DaemonThreads(64, "retrain-reward")
_WORKER = "retrain.reward.process_worker:call"
_FOR_EVER = 1e8


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a call and its repetitions.

    Attributes:
        value: What the function gave, as it was read; None where it failed.
        failure: The last failure; None where one attempt went well.
        retries: How often it was tried again.
    """

    value: Any = None
    failure: EpisodeFailure | None = None
    retries: int = 0


async def attempt(
    component: RewardComponent,
    what: str,
    slots: asyncio.Semaphore,
    function: Callable[[], Any],
    read: Callable[[Any], Any],
) -> Attempt:
    """Call something of a component, and again where that fails, as often as it allows.

    Args:
        component: Its timeout and its retries.
        what: What is called, for messages.
        slots: Bounds the calls that run at once.
        function: What to call.
        read: Checks what it gives; raises `RewardFailure`.
    """
    for retries in range(component.retries + 1):
        try:
            value = await _call(component, what, slots, function)
            async with boundary(RewardFailure, what):  # a number may be one of any library
                return Attempt(read(value), None, retries)
        except EpisodeFailure as error:
            failure = error
    return Attempt(None, failure, component.retries)


def calling(component: RewardComponent, trajectories: Sequence[Trajectory]) -> Callable[[], Any]:
    """The call of a component's function for episodes: one, unless it takes many.

    Returns:
        A function without arguments, synchronous or asynchronous as the component's is.
    """
    if component.process is not None:
        return partial(_in_process, component, component.process, trajectories)
    assert component.function is not None, "RewardComponent checks it"
    function = partial(component.function, **component.params)
    prepare = _unchanged if trusted(component.function) else shielded
    if component.takes in (Takes.EPISODES, Takes.GROUP):
        return _deferred(function, lambda: (list(map(prepare, trajectories)),))
    (trajectory,) = trajectories
    if component.takes is Takes.TURN:
        return _over_turns(function, lambda: prepare(trajectory))
    return _deferred(function, lambda: (prepare(trajectory),))


def checking(verifier: Verifier, trajectory: Trajectory) -> Callable[[], Any]:
    """The call of a verifier, as `calling` is of a component's function."""
    prepare = _unchanged if trusted(verifier) else shielded
    return _deferred(verifier, lambda: (prepare(trajectory),))


async def _call(
    component: RewardComponent, what: str, slots: asyncio.Semaphore, function: Callable[[], Any]
) -> Any:
    in_process = component.process is not None and _target(function) is _in_process
    timeout = None if in_process else component.timeout
    within = partial(boundary, RewardFailure, what, timeout=timeout)
    async with slots:
        if not in_process:
            return await call(_THREADS, function, within=within)
        try:
            return await call_in_thread(_THREADS, function, within=within)
        except RewardFailure as error:
            raise RewardFailure(_told(what, error)) from error.__cause__


def _in_process(component: RewardComponent, path: str, trajectories: Sequence[Trajectory]) -> Any:
    from retrain.reward.hub.pool import function_pool
    from retrain.reward.process_worker import episodes

    given = episodes().dump_python(
        list(trajectories), mode="json", exclude={"__all__": {"witness"}}
    )
    seconds = _FOR_EVER if component.timeout is None else component.timeout
    params = dict(component.params)
    return function_pool().call(_WORKER, component.takes, path, params, given, seconds=seconds)


def _deferred(
    function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]
) -> Callable[[], Any]:
    """Call `function` with arguments that are made where it runs."""

    async def asynchronously() -> Any:
        return await function(*arguments())

    def synchronously() -> Any:
        return function(*arguments())

    return asynchronously if is_async(function) else synchronously


def _over_turns(function: Callable[..., Any], given: Callable[[], Trajectory]) -> Callable[[], Any]:
    async def asynchronously() -> list[Any]:
        trajectory = given()
        return [await function(turn, trajectory) for turn in trajectory.turns]

    def synchronously() -> list[Any]:
        trajectory = given()
        return [function(turn, trajectory) for turn in trajectory.turns]

    return asynchronously if is_async(function) else synchronously


def _target(function: Callable[[], Any]) -> Any:
    return function.func if isinstance(function, partial) else function


def _unchanged(trajectory: Trajectory) -> Trajectory:
    return trajectory


def _told(what: str, error: RewardFailure) -> str:
    text = str(error)
    return text if text.startswith(what) else f"{what}: {text}"
