"""Evaluates one reward component over episodes; a failure is an outcome like any other."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

from retrain.errors import EpisodeFailure, RewardFailure, boundary
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.threads import DaemonThreads, call, is_async
from retrain.types import Trajectory

Outcome: TypeAlias = "float | EpisodeFailure | None"
"""A component's value for one episode, None where it does not apply, or why it has none."""

_THREADS = DaemonThreads(64, "retrain-reward")


async def evaluate(
    component: RewardComponent, trajectories: Sequence[Trajectory], slots: asyncio.Semaphore
) -> list[Outcome]:
    """Evaluate a component over episodes.

    Args:
        component: The component.
        trajectories: The episodes; a batch function gets those that its verifiers let through.
        slots: Bounds the calls that run at once.

    Returns:
        One outcome per episode, in order.
    """
    verdicts = await _gather(_verdict(component, t, slots) for t in trajectories)
    passed = [t for t, verdict in zip(trajectories, verdicts, strict=True) if verdict is None]
    if is_batched(component):
        values = iter(await _batch(component, passed, slots) if passed else [])
    else:
        values = iter(await _gather(_single(component, t, slots) for t in passed))
    return [next(values) if verdict is None else verdict for verdict in verdicts]


def is_batched(component: RewardComponent) -> bool:
    """Whether a component's function takes many episodes: its first parameter says so."""
    if component.function is None or component.kind is not ComponentKind.ROLLOUT:
        return False
    return next(iter(inspect.signature(component.function).parameters), "") == "trajectories"


async def _gather(outcomes: Any) -> list[Outcome]:
    return list(await asyncio.gather(*outcomes))


async def _verdict(
    component: RewardComponent, trajectory: Trajectory, slots: asyncio.Semaphore
) -> Outcome:
    """The penalty or a failure; None where every verifier holds."""
    for verifier in component.verifiers:
        name = getattr(verifier, "__name__", repr(verifier))
        what = f"reward {component.name}: verifier {name}"
        try:
            holds = await _call(component, what, slots, verifier, trajectory)
            if not isinstance(holds, bool):
                raise RewardFailure(f"{what} returned {holds!r}; expected True or False")
        except EpisodeFailure as failure:
            return failure
        if not holds:
            return component.verifier_penalty
    return None


async def _single(
    component: RewardComponent, trajectory: Trajectory, slots: asyncio.Semaphore
) -> Outcome:
    what = f"reward {component.name}"
    try:
        if component.kind is ComponentKind.ENVIRONMENT:
            return math.fsum(finite_number(turn.reward, what) for turn in trajectory.turns)
        if component.kind is ComponentKind.STEP:
            function = _over_turns(component, trajectory)
            values = await _call(component, what, slots, function)
            return math.fsum(finite_number(value, what) for value in values)
        function = partial(_function_of(component), **component.params)
        value = await _call(component, what, slots, function, trajectory)
        return None if value is None else finite_number(value, what)
    except EpisodeFailure as failure:
        return failure


async def _batch(
    component: RewardComponent, trajectories: list[Trajectory], slots: asyncio.Semaphore
) -> list[Outcome]:
    what = f"reward {component.name}"
    function = partial(_function_of(component), **component.params)
    try:
        values = await _call(component, what, slots, function, trajectories)
        if not isinstance(values, Sequence) or len(values) != len(trajectories):
            raise RewardFailure(
                f"{what} returned {_count(values)} for {len(trajectories)} episodes"
            )
    except EpisodeFailure as failure:
        return [failure] * len(trajectories)
    return [_outcome(value, what) for value in values]


def _outcome(value: Any, what: str) -> Outcome:
    try:
        return None if value is None else finite_number(value, what)
    except RewardFailure as failure:
        return failure


def _over_turns(component: RewardComponent, trajectory: Trajectory) -> Callable[[], Any]:
    function = partial(_function_of(component), **component.params)

    async def asynchronously() -> list[Any]:
        return [await function(turn, trajectory) for turn in trajectory.turns]

    def synchronously() -> list[Any]:
        return [function(turn, trajectory) for turn in trajectory.turns]

    return asynchronously if is_async(function) else synchronously


async def _call(
    component: RewardComponent,
    what: str,
    slots: asyncio.Semaphore,
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    within = partial(boundary, RewardFailure, what, timeout=component.timeout)
    async with slots:
        return await call(_THREADS, function, *args, within=within)


def _function_of(component: RewardComponent) -> Callable[..., Any]:
    assert component.function is not None, "RewardComponent checks it"
    return component.function


def finite_number(value: Any, what: str) -> float:
    """Check what a reward function gave.

    Args:
        value: What it gave.
        what: Who gave it, for the message.

    Raises:
        RewardFailure: It is no number, or not finite.
    """
    if not isinstance(value, Real):
        raise RewardFailure(f"{what} returned {type(value).__name__} {value!r}; expected a number")
    if not math.isfinite(value):
        raise RewardFailure(f"{what} returned {value}; expected a finite number")
    return float(value)


def _count(values: Any) -> str:
    if not isinstance(values, Sequence):
        return f"{type(values).__name__} {values!r} instead of a list"
    return f"{len(values)} values"
