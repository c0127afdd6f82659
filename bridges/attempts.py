"""`Attempts`: episodes within their bounds, and again where one that failed may be retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from bridges.environment import EnvironmentBridge
from bridges.interrupted import Interrupted, Player
from bridges.matches import failed_episode, play_match
from bridges.policy import FailureAction
from bridges.rollout_settings import RolloutSettings
from retrain.engine.base import InferenceEngine
from retrain.errors import BackendFailure, Boundary, ConfigError, EpisodeError
from retrain.pausing import Seat, deadline
from retrain.rollout.request import GroupRequest
from retrain.seeds import EpisodeSeed
from retrain.types import Trajectory


class Attempts:
    """Plays members of groups, as many at the same time as the settings allow.

    Attributes:
        seats: How many members of a group play together.
    """

    def __init__(
        self, environment: EnvironmentBridge, engine: InferenceEngine, settings: RolloutSettings
    ) -> None:
        """Play in an environment.

        Args:
            environment: Plays one episode.
            engine: Writes the model's turns.
            settings: How groups are collected.

        Raises:
            ConfigError: A group cannot be parted into matches.
        """
        self.seats = _seats(environment, settings.n_samples)
        self._environment = environment
        self._engine = engine
        self._settings = settings
        self._factory = environment.matches
        self._room = asyncio.Semaphore(max(settings.concurrency // self.seats, 1))

    async def match(
        self, request: GroupRequest, slots: range, interrupted: Interrupted | None
    ) -> tuple[Trajectory, ...]:
        """Play the members of a group that play together: one, or the seats of a match.

        Args:
            request: The group.
            slots: Which members.
            interrupted: The group's episodes as a restart interrupted them.

        Raises:
            RetrainError: A failure whose policy is to raise.
        """
        policy = self._settings.policy
        kept = [interrupted.ended(n, request.task) for n in slots] if interrupted else [None]
        if all(kept):
            return tuple(episode for episode in kept if episode is not None)
        if (running := asyncio.current_task()) is not None:
            running.set_name(f"task {request.task.id!r}, sample {slots[0]}")
        async with Seat(self._room):
            for attempt in range(policy.retries + 1):
                played = await self._attempt(request, slots, attempt, interrupted)
                error = next((episode.error for episode in played if episode.error), None)
                if error is None:
                    break
                action = policy.action(error)
                if action is FailureAction.RAISE:
                    raise _as_exception(error, request)
                if action is not FailureAction.RETRY:
                    break
        return tuple(self._placed(request, episode, interrupted) for episode in played)

    def _placed(
        self, request: GroupRequest, episode: Trajectory, interrupted: Interrupted | None
    ) -> Trajectory:
        number = episode.seed.sample_index
        position = request.index * self._settings.n_samples + number
        placed = replace(episode, group_index=request.index, index=position)
        if interrupted is not None:
            interrupted.end(number, placed)
        return placed

    async def _attempt(
        self,
        request: GroupRequest,
        slots: range,
        attempt: int,
        interrupted: Interrupted | None,
    ) -> tuple[Trajectory, ...]:
        run, split = self._settings.run_seed, self._settings.split
        named = partial(EpisodeSeed, run, split, request.task.id, request.visit)
        seeds = [named(number, attempt) for number in slots]
        if self._factory is None:
            player, (seed,) = self._environment, seeds
            play = interrupted.player(player, seed.sample_index) if interrupted else player.run
            return (await self._play(request, seed, play),)

        def seat(player: EnvironmentBridge, seed: EpisodeSeed) -> Awaitable[Trajectory]:
            return self._play(request, seed, player.run)

        return await play_match(self._environment, self._factory, request.task, seeds, seat)

    async def _play(self, request: GroupRequest, seed: EpisodeSeed, play: Player) -> Trajectory:
        settings = self._settings
        try:
            async with deadline(settings.episode_timeout):
                return await play(
                    request.task,
                    engine=self._engine,
                    params=settings.params,
                    seed=seed,
                    evaluation=settings.evaluation,
                )
        except TimeoutError:
            error = _timeout_error(settings.episode_timeout)
            return failed_episode(request.task, seed, error)


def _seats(environment: EnvironmentBridge, n_samples: int) -> int:
    """How many episodes of a group play together.

    Raises:
        ConfigError: The group cannot be parted so.
    """
    if n_samples % environment.seats:
        raise ConfigError(
            f"n_samples_per_prompt (--samples): {n_samples} is no multiple of the "
            f"{environment.seats} agents that the model plays; each match gives a group one "
            "episode of each of them"
        )
    return environment.seats


def _timeout_error(seconds: float | None) -> EpisodeError:
    return EpisodeError(Boundary.ENVIRONMENT, f"episode: not over within {seconds} s")


def _as_exception(error: EpisodeError, request: GroupRequest) -> BackendFailure:
    return BackendFailure(
        f"task {request.task.id!r}: {error.boundary}: {error.reason} (the policy of "
        f"rollout.failure.{error.boundary} is to raise)\n{error.traceback}"
    )
