"""`RolloutBridge.collect`: many groups at once, with bounded concurrency and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bridges.environment import EnvironmentBridge
from bridges.gathering import gather
from bridges.interrupted import Interrupted
from bridges.policy import FailureAction, FailurePolicy
from bridges.reward import RewardBridge
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.errors import BackendFailure, Boundary, EpisodeError
from retrain.pausing import Seat, deadline
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.rollout.waiting import Draws
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Group, StopReason, Trajectory

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
        self._room = asyncio.Semaphore(settings.concurrency)

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
            episodes = await gather(
                [
                    self.episode(request, index, interrupted=interrupted)
                    for index in range(self.settings.n_samples)
                ]
            )
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
            RetrainError: A failure whose policy is to raise.
        """
        settings = self.settings
        seed = EpisodeSeed(
            settings.run_seed, settings.split, request.task.id, request.visit, sample_index
        )
        kept = None if interrupted is None else interrupted.ended(sample_index, request.task)
        if kept is not None:
            return kept
        if (running := asyncio.current_task()) is not None:
            running.set_name(f"task {request.task.id!r}, sample {sample_index}")
        async with Seat(self._room):
            for attempt in range(settings.policy.retries + 1):
                trajectory = await self._play(request, replace(seed, attempt=attempt), interrupted)
                if trajectory.error is None:
                    break
                action = settings.policy.action(trajectory.error)
                if action is FailureAction.RAISE:
                    raise _as_exception(trajectory.error, request)
                if action is not FailureAction.RETRY:
                    break
        position = request.index * settings.n_samples + sample_index
        trajectory = replace(trajectory, group_index=request.index, index=position)
        if interrupted is not None:
            interrupted.end(sample_index, trajectory)
        return trajectory

    async def _play(
        self, request: GroupRequest, seed: EpisodeSeed, interrupted: Interrupted | None
    ) -> Trajectory:
        settings, player = self.settings, self.environment
        play = partial(
            player.run if interrupted is None else interrupted.player(player, seed.sample_index),
            request.task,
            engine=self.engine,
            params=settings.params,
            evaluation=settings.evaluation,
        )
        try:
            async with deadline(settings.episode_timeout):
                return await play(seed=seed)
        except TimeoutError:
            return Trajectory(
                task=request.task,
                seed=seed,
                segments=(),
                status=Status.FAILED,
                stop_reason=StopReason.FAILED,
                error=_timeout_error(settings.episode_timeout),
            )


def _timeout_error(seconds: float | None) -> EpisodeError:
    return EpisodeError(Boundary.ENVIRONMENT, f"episode: not over within {seconds} s")


def _as_exception(error: EpisodeError, request: GroupRequest) -> BackendFailure:
    return BackendFailure(
        f"task {request.task.id!r}: {error.boundary}: {error.reason} (the policy of "
        f"rollout.failure.{error.boundary} is to raise)\n{error.traceback}"
    )
