"""`RolloutBridge.collect`: many groups at once, with bounded concurrency and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bridges.environment import EnvironmentBridge
from bridges.gathering import gather
from bridges.interrupted import Interrupted, Player
from bridges.matches import failed_episode, play_match
from bridges.policy import FailureAction, FailurePolicy
from bridges.reward import RewardBridge
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.errors import BackendFailure, Boundary, ConfigError, EpisodeError
from retrain.pausing import Seat, deadline
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.rollout.waiting import Draws
from retrain.seeds import EpisodeSeed
from retrain.types import Group, Trajectory

Refill = Callable[[], GroupRequest]
"""Gives another task when a group is to be played anew."""


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How groups are collected.

    Attributes:
        params: How the engine samples.
        n_samples: G, episodes of one group.
        run_seed: The run's seed.
        split: "train", or the evaluation's name; part of every seed.
        concurrency: Most episodes in play at the same time, suspended ones left out.
        episode_timeout: Seconds that one episode may take, without those for which it is
            suspended; None waits for ever.
        policy: What happens to failed episodes.
        evaluation: Marks the episodes as evaluation.
    """

    params: SamplingParams
    n_samples: int = 8
    run_seed: int = 0
    split: str = "train"
    concurrency: int = 64
    episode_timeout: float | None = None
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    evaluation: bool = False


class RolloutBridge:
    """Plays, scores and groups episodes."""

    def __init__(
        self,
        environment: EnvironmentBridge,
        rewards: RewardBridge,
        engine: InferenceEngine,
        settings: RolloutSettings,
    ) -> None:
        """Make a bridge.

        Args:
            environment: Plays one episode.
            rewards: Scores episodes and computes advantages.
            engine: Writes the model's turns.
            settings: How groups are collected.
        """
        self.environment = environment
        self.rewards = rewards
        self.engine = engine
        self.settings = settings
        self._factory = environment.matches
        self._seats = _seats(environment, settings.n_samples)
        self._room = asyncio.Semaphore(max(settings.concurrency // self._seats, 1))

    def with_settings(self, settings: RolloutSettings) -> RolloutBridge:
        """The same bridge, collecting in another way."""
        return RolloutBridge(self.environment, self.rewards, self.engine, settings)

    def managed(self, draws: Draws, how: OverSampling) -> RolloutManager:
        """A manager that plays by this bridge, with its engine behind a gate.

        Args:
            draws: Gives the tasks.
            how: How a batch is filled.
        """
        gate = GatedEngine(self.engine)
        bridge = RolloutBridge(self.environment, self.rewards, gate, self.settings)
        check = self.settings.policy.check
        return RolloutManager(bridge.play, draws, gate, how, check=check)

    async def collect(
        self, groups: Sequence[GroupRequest], *, refill: Refill | None = None
    ) -> list[Group]:
        """Play `groups`, G episodes each.

        Args:
            groups: What to play.
            refill: Gives another task where the policy is to refill; without it, such a group is
                masked.

        Returns:
            The groups, in the order asked for; failed episodes are slots of theirs.

        Raises:
            RetrainError: A failure whose policy is to raise, or too many failures.
        """
        collected = await gather([self.group(request, refill=refill) for request in groups])
        self.settings.policy.check(t for group in collected for t in group.trajectories)
        return collected

    async def play(self, visit: Visit) -> Group:
        """Play a group for a `RolloutManager`, which checks the failures of the whole batch."""
        worlds = self.rewards.calculator.reads_environments
        interrupted = Interrupted(visit.records, worlds=worlds)
        visit.save = interrupted.save
        group = await self.group(visit.request, refill=visit.refill, interrupted=interrupted)
        visit.continued = interrupted.continued
        return group

    async def group(
        self,
        request: GroupRequest,
        *,
        refill: Refill | None = None,
        interrupted: Interrupted | None = None,
    ) -> Group:
        """Play and score one group.

        Args:
            request: What to play.
            refill: As in `collect`.
            interrupted: Its episodes as a restart interrupted them.

        Raises:
            RetrainError: A failure whose policy is to raise.
        """
        refills = self.settings.policy.retries if refill is not None else 0
        while True:
            matches = [
                self._match(request, range(first, first + self._seats), interrupted)
                for first in range(0, self.settings.n_samples, self._seats)
            ]
            episodes = [episode for match in await gather(matches) for episode in match]
            if refill is None or not refills or not any(map(self._wants_refill, episodes)):
                break
            refills -= 1
            request = refill()
            interrupted = None if interrupted is None else interrupted.of_another_task()
        return await self.rewards.group(request.index, request.task, request.visit, episodes)

    def _wants_refill(self, trajectory: Trajectory) -> bool:
        error = trajectory.error
        return error is not None and self.settings.policy.action(error) is FailureAction.REFILL

    async def episode(
        self, request: GroupRequest, sample_index: int, *, interrupted: Interrupted | None = None
    ) -> Trajectory:
        """Play one member of a group, not yet scored, under the same policies and bounds.

        Args:
            request: The group.
            sample_index: Which member, from 0 to G - 1.
            interrupted: The group's episodes as a restart interrupted them.

        Raises:
            ConfigError: It cannot be played without the others of its match.
            RetrainError: A failure whose policy is to raise.
        """
        if self._seats > 1:
            raise ConfigError(
                f"environment.type: the {self._seats} agents of a match are played together, and "
                "this plays single episodes; play whole groups, or name players for all agents "
                "but one under environment.agents"
            )
        slots = range(sample_index, sample_index + 1)
        (trajectory,) = await self._match(request, slots, interrupted)
        return trajectory

    async def _match(
        self, request: GroupRequest, slots: range, interrupted: Interrupted | None
    ) -> tuple[Trajectory, ...]:
        """Play the members of a group that play together: one, or the seats of a match."""
        policy = self.settings.policy
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
        position = request.index * self.settings.n_samples + number
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
        run, split = self.settings.run_seed, self.settings.split
        named = partial(EpisodeSeed, run, split, request.task.id, request.visit)
        seeds = [named(number, attempt) for number in slots]
        if self._factory is None:
            player, (seed,) = self.environment, seeds
            play = interrupted.player(player, seed.sample_index) if interrupted else player.run
            return (await self._play(request, seed, play),)

        def seat(player: EnvironmentBridge, seed: EpisodeSeed) -> Awaitable[Trajectory]:
            return self._play(request, seed, player.run)

        return await play_match(self.environment, self._factory, request.task, seeds, seat)

    async def _play(self, request: GroupRequest, seed: EpisodeSeed, play: Player) -> Trajectory:
        settings = self.settings
        try:
            async with deadline(settings.episode_timeout):
                return await play(
                    request.task,
                    engine=self.engine,
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
