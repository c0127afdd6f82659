"""Evaluates one reward component over episodes; a failure is an outcome like any other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrain.errors import EpisodeFailure, RewardFailure
from retrain.reward.calling import attempt, calling, checking
from retrain.reward.chunks import calls_of
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.reward.distribution import Distribution, discounted, spread
from retrain.reward.hub.cases import shown
from retrain.reward.taking import Takes
from retrain.reward.values import (
    BadValue,
    BadValues,
    WrongCount,
    finite_number,
    reward_number,
    reward_numbers,
)
from retrain.types import Trajectory


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a component gives for one episode.

    Attributes:
        value: Its value; None where it does not apply, and where it failed.
        failure: Why it has none.
        turns: [turns] the value of each turn, where the component has one for each.
        retries: How often it was tried again.
    """

    value: float | None = None
    failure: EpisodeFailure | None = None
    turns: tuple[float, ...] = ()
    retries: int = 0

    @property
    def reason(self) -> str:
        """The kind of the failure: timeout, value, count or exception."""
        if isinstance(self.failure, BadValue):
            return "value"
        if isinstance(self.failure, WrongCount):
            return "count"
        late = self.failure is not None and isinstance(self.failure.__cause__, TimeoutError)
        return "timeout" if late else "exception"


async def evaluate(
    component: RewardComponent, trajectories: Sequence[Trajectory], slots: asyncio.Semaphore
) -> list[Outcome]:
    """Evaluate a component over episodes.

    Args:
        component: The component.
        trajectories: The episodes; the function gets those that its verifiers let through.
        slots: Bounds the calls that run at once.

    Returns:
        One outcome per episode, in order.
    """
    verdicts = await asyncio.gather(*(_verdict(component, t, slots) for t in trajectories))
    passed = [t for t, verdict in zip(trajectories, verdicts, strict=True) if verdict is None]
    values = iter(await _values(component, passed, slots))
    return [next(values) if verdict is None else verdict for verdict in verdicts]


def recorded(
    component: RewardComponent, value: float, outcome: Outcome, trajectory: Trajectory
) -> tuple[float, ...]:
    """[turns] how a component's value is put down to the turns; empty where that is not asked."""
    how = component.distribution
    if how is None:
        return ()
    if how is Distribution.OWN and outcome.turns and outcome.failure is None:
        return outcome.turns
    return spread(value, how, trajectory.turns, component.discount)


async def _verdict(
    component: RewardComponent, trajectory: Trajectory, slots: asyncio.Semaphore
) -> Outcome | None:
    """The penalty or a failure; None where every verifier holds."""
    for verifier in component.verifiers:
        name = getattr(verifier, "__name__", repr(verifier))
        what = f"reward {component.name}: verifier {name}"
        found = await attempt(
            component, what, slots, checking(verifier, trajectory), partial(_holds, what)
        )
        if found.failure is not None:
            return Outcome(failure=found.failure, retries=found.retries)
        if not found.value:
            return Outcome(component.verifier_penalty, retries=found.retries)
    return None


async def _values(
    component: RewardComponent, trajectories: Sequence[Trajectory], slots: asyncio.Semaphore
) -> list[Outcome]:
    if component.kind is ComponentKind.ENVIRONMENT:
        return [_environment(component, trajectory) for trajectory in trajectories]
    calls = calls_of(component, trajectories)
    rows = await asyncio.gather(
        *(_called(component, [trajectories[n] for n in call], slots) for call in calls)
    )
    found: dict[int, Outcome] = {}
    for positions, outcomes in zip(calls, rows, strict=True):
        found |= dict(zip(positions, outcomes, strict=True))
    return [found[position] for position in range(len(trajectories))]


def _environment(component: RewardComponent, trajectory: Trajectory) -> Outcome:
    what = f"reward {component.name}"
    try:
        rewards = [finite_number(turn.reward, what) for turn in trajectory.turns]
    except RewardFailure as failure:
        return Outcome(failure=failure)
    return _of_turns(component, rewards)


async def _called(
    component: RewardComponent, trajectories: Sequence[Trajectory], slots: asyncio.Semaphore
) -> list[Outcome]:
    """The outcomes of one call."""
    what = f"reward {component.name}"
    read = _reader(component, what, len(trajectories))
    found = await attempt(component, what, slots, calling(component, trajectories), read)
    if isinstance(found.failure, BadValues):
        return [_outcome(value, found.retries) for value in found.failure.values]
    if found.failure is not None:
        return [Outcome(failure=found.failure, retries=found.retries) for _ in trajectories]
    if component.takes is Takes.TURN:
        return [_of_turns(component, found.value, found.retries)]
    return [_outcome(value, found.retries) for value in found.value]


def _reader(component: RewardComponent, what: str, count: int) -> Callable[[Any], Any]:
    """Checks what one call gives."""
    key = component.reward_key
    if component.takes is Takes.TURN:
        return lambda values: [_of_turn(value, what, key) for value in values]
    if component.takes is Takes.EPISODE:
        return lambda value: [reward_number(value, what, key)]
    return lambda values: reward_numbers(values, count, what, key)


def _outcome(value: float | BadValue | None, retries: int) -> Outcome:
    if isinstance(value, BadValue):
        return Outcome(failure=value, retries=retries)
    return Outcome(value, retries=retries)


def _of_turns(component: RewardComponent, rewards: Iterable[float], retries: int = 0) -> Outcome:
    turns = discounted(tuple(rewards), component.discount)
    return Outcome(math.fsum(turns), None, turns, retries)


def _of_turn(value: Any, what: str, reward_key: str | None) -> float:
    return finite_number(reward_number(value, what, reward_key), what)


def _holds(what: str, holds: Any) -> bool:
    if not isinstance(holds, bool):
        raise BadValue(f"{what} returned {shown(holds)}; expected True or False")
    return holds
