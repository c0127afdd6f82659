"""Playing a match: every seat is an episode, and what breaks one breaks them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bridges.environment import EnvironmentBridge
from bridges.gathering import gather
from retrain.environment.registry import EnvironmentFactory
from retrain.errors import EnvironmentFailure, EpisodeError, boundary
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import StopReason, Task, Trajectory

PlaySeat = Callable[[EnvironmentBridge, EpisodeSeed], Awaitable[Trajectory]]
"""Plays the episode of one seat, whose environment the bridge makes."""


async def play_match(
    bridge: EnvironmentBridge,
    factory: EnvironmentFactory,
    task: Task,
    seeds: Sequence[EpisodeSeed],
    play: PlaySeat,
) -> tuple[Trajectory, ...]:
    """Play the seats of one match together.

    A seat that fails or is aborted ends the match: all its episodes fail with that failure, or are
    aborted. One that a limit cuts leaves it, and the environment says whether it goes on. One that
    never came to act is aborted, as there is nothing of it to train on.

    Args:
        bridge: Plays episodes.
        factory: Makes the match.
        task: What it is about.
        seeds: Of each seat, in the order of `Casting.seats`.
        play: Plays one of them.

    Returns:
        The trajectory of each seat, in order, not yet scored.

    Raises:
        RetrainError: A mistake in the configuration, or a missing package.
    """
    try:
        async with boundary(EnvironmentFailure, "environment constructor"):
            match = factory.match(bridge.limits.step_timeout)
    except EnvironmentFailure as failure:
        return tuple(failed_episode(task, seed, EpisodeError.of(failure)) for seed in seeds)
    agents = match.casting.seats

    async def seat(agent: str, seed: EpisodeSeed) -> Trajectory:
        there = EnvironmentBridge(bridge.renderer, lambda: match.seats[agent], bridge.limits)
        played = await play(there, seed)
        if played.error is not None:
            match.break_off(agent, f"failed: {played.error.reason}")
        elif played.status is Status.ABORTED:
            match.break_off(agent, "was aborted")
        else:
            match.leave(agent)
        told = _with_info(played, match.info(agent))
        return replace(told, agent=agent, masked=agent in match.casting.masked)

    try:
        pairs = zip(agents, seeds, strict=True)
        played = await gather([seat(agent, seed) for agent, seed in pairs])
    finally:
        with suppress(EnvironmentFailure):
            await match.shut()
    lost = next((one for one in played if one.agent == match.lost), None)
    return tuple(played) if lost is None else tuple(_along(one, lost) for one in played)


def failed_episode(task: Task, seed: EpisodeSeed, error: EpisodeError) -> Trajectory:
    """An episode that failed before its first prompt."""
    return Trajectory(task, seed, (), Status.FAILED, StopReason.FAILED, error=error)


def _with_info(episode: Trajectory, info: Mapping[str, Any]) -> Trajectory:
    """An episode with what the match said of it at its end; one that left never read that."""
    segments = episode.segments
    if not info or not segments or not segments[-1].turns:
        return episode
    *turns, last = segments[-1].turns
    told = replace(last, info={**last.info, **info})
    ended = replace(segments[-1], turns=(*turns, told))
    return replace(episode, segments=(*segments[:-1], ended))


def _along(episode: Trajectory, lost: Trajectory) -> Trajectory:
    """What becomes of an episode of the match that another one broke off."""
    if episode is lost:
        return episode
    if lost.error is None or episode.error is None:
        aborted = replace(episode, status=Status.ABORTED, stop_reason=StopReason.ABORTED)
        return replace(aborted, error=None)
    return replace(episode, error=replace(episode.error, boundary=lost.error.boundary))
