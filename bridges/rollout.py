"""`RolloutBridge.collect`: many groups at once, with bounded concurrency and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bridges.environment import EnvironmentBridge
from bridges.policy import FailureAction, FailurePolicy
from bridges.reward import RewardBridge
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.errors import BackendFailure, Boundary, EpisodeError, RetrainError
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Group, StopReason, Trajectory

T = TypeVar("T")

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
        concurrency: Most episodes in play at the same time.
        episode_timeout: Seconds that one episode may take; None waits for ever.
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
        collected = await _gather([self._group(request, refill) for request in groups])
        self.settings.policy.check(t for group in collected for t in group.trajectories)
        return collected

    async def _group(self, request: GroupRequest, refill: Refill | None) -> Group:
        refills = self.settings.policy.retries if refill is not None else 0
        while True:
            episodes = await _gather(
                [self.episode(request, index) for index in range(self.settings.n_samples)]
            )
            if refill is None or not refills or not any(map(self._wants_refill, episodes)):
                break
            refills -= 1
            request = refill()
        return await self.rewards.group(request.index, request.task, request.visit, episodes)

    def _wants_refill(self, trajectory: Trajectory) -> bool:
        error = trajectory.error
        return error is not None and self.settings.policy.action(error) is FailureAction.REFILL

    async def episode(self, request: GroupRequest, sample_index: int) -> Trajectory:
        """Play one member of a group, not yet scored, under the same policies and bounds.

        Args:
            request: The group.
            sample_index: Which member, from 0 to G - 1.

        Raises:
            RetrainError: A failure whose policy is to raise.
        """
        settings = self.settings
        seed = EpisodeSeed(
            settings.run_seed, settings.split, request.task.id, request.visit, sample_index
        )
        if (running := asyncio.current_task()) is not None:
            running.set_name(f"task {request.task.id!r}, sample {sample_index}")
        async with self._room:
            for attempt in range(settings.policy.retries + 1):
                trajectory = await self._play(request, replace(seed, attempt=attempt))
                if trajectory.error is None:
                    break
                action = settings.policy.action(trajectory.error)
                if action is FailureAction.RAISE:
                    raise _as_exception(trajectory.error, request)
                if action is not FailureAction.RETRY:
                    break
        position = request.index * settings.n_samples + sample_index
        return replace(trajectory, group_index=request.index, index=position)

    async def _play(self, request: GroupRequest, seed: EpisodeSeed) -> Trajectory:
        settings = self.settings
        try:
            async with asyncio.timeout(settings.episode_timeout):
                return await self.environment.run(
                    request.task,
                    engine=self.engine,
                    params=settings.params,
                    seed=seed,
                    evaluation=settings.evaluation,
                )
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


async def _gather(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all; the first retrain error cancels the rest and is raised bare."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except* RetrainError as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


def _first(errors: BaseExceptionGroup[RetrainError]) -> RetrainError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
