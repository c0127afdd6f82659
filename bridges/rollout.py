"""`RolloutBridge.collect`: many groups at once, with bounded concurrency and timeouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridges.attempts import Attempts
from bridges.environment import EnvironmentBridge
from bridges.gathering import gather
from bridges.interrupted import Interrupted
from bridges.policy import FailureAction
from bridges.reward import RewardBridge
from bridges.rollout_settings import RolloutSettings
from retrain.engine.base import InferenceEngine
from retrain.errors import ConfigError
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.rollout.waiting import Draws
from retrain.types import Group, Trajectory

Refill = Callable[[], GroupRequest]
"""Gives another task when a group is to be played anew."""


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
        self._attempts = Attempts(environment, engine, settings)

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
            seats = self._attempts.seats
            matches = [
                self._attempts.match(request, range(first, first + seats), interrupted)
                for first in range(0, self.settings.n_samples, seats)
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
        seats = self._attempts.seats
        if seats > 1:
            raise ConfigError(
                f"environment.type: the {seats} agents of a match are played together, and "
                "this plays single episodes; play whole groups, or name players for all agents "
                "but one under environment.agents"
            )
        slots = range(sample_index, sample_index + 1)
        (trajectory,) = await self._attempts.match(request, slots, interrupted)
        return trajectory
