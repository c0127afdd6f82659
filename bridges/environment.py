"""`EnvironmentBridge.run`: the only episode loop there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from bridges.episode import Episode
from bridges.limits import EpisodeLimits
from bridges.stopping import strings_for
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.environment import registry
from retrain.environment.base import Environment, ToolSchema
from retrain.environment.seat import NeverActed
from retrain.errors import (
    EnvironmentFailure,
    EpisodeError,
    EpisodeFailure,
    WorkerLost,
    boundary,
)
from retrain.rendering.base import Renderer
from retrain.rollout.executors.base import after_losses, placed
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import StopReason, Task, Trajectory

EnvironmentFactory = Callable[[], Environment]

_SESSIONS = count()
_STATUS = {
    StopReason.TERMINATED: Status.COMPLETED,
    StopReason.ABORTED: Status.ABORTED,
    StopReason.FAILED: Status.FAILED,
}


class EnvironmentBridge:
    """Plays episodes: an environment and an engine, turn by turn, over one growing token stream.

    Where history is rewritten, by the environment or by a template that `rendering.history:
    template` follows, the stream ends and another one begins.
    """

    def __init__(
        self,
        renderer: Renderer,
        make_environment: EnvironmentFactory,
        limits: EpisodeLimits,
    ) -> None:
        """Make a bridge.

        Args:
            renderer: Turns messages into tokens and sampled tokens into actions.
            make_environment: Makes one environment; called once an episode.
            limits: Bounds of every episode.
        """
        self.renderer = renderer
        self.make_environment = make_environment
        self.limits = limits

    @property
    def matches(self) -> registry.EnvironmentFactory | None:
        """What makes matches of several seats, each an episode; None where episodes are single."""
        make = self.make_environment
        if isinstance(make, registry.EnvironmentFactory) and make.together is not None:
            return make
        return None

    @property
    def seats(self) -> int:
        """How many episodes are played together: those of a match, else 1."""
        factory = self.matches
        return 1 if factory is None or factory.casting is None else len(factory.casting.seats)

    async def tools(self) -> tuple[ToolSchema, ...]:
        """The tools that a fresh environment offers, for prompts that no episode is played from.

        Raises:
            EnvironmentFailure: The environment cannot be made, or raised.
        """
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = self.make_environment()
        async with placed(environment):
            async with boundary(EnvironmentFailure, "tools", timeout=self.limits.step_timeout):
                tools = tuple(await environment.discover_tools())
            async with boundary(EnvironmentFailure, "close", timeout=self.limits.step_timeout):
                await environment.close()
        return tools

    async def run(
        self,
        task: Task,
        *,
        engine: InferenceEngine,
        params: SamplingParams,
        seed: EpisodeSeed,
        evaluation: bool = False,
        watch: Callable[[Episode], None] | None = None,
    ) -> Trajectory:
        """Play one episode.

        Args:
            task: What the episode is about.
            engine: Writes the model's turns.
            params: How to sample; `max_tokens` is the bound of one turn and is lowered to what
                the episode's limits leave, and the renderer's stop tokens are added.
            seed: Names the episode and seeds all of it.
            evaluation: Marks the session, so that engines and logs can tell it apart.
            watch: Told of the episode when it begins, and again where it begins again.

        Returns:
            The trajectory, not yet scored. A failure inside the episode is data on it
            (`status=failed`, `error`); only cancellation, a mistake in the configuration, a
            missing package and an executor without workers are raised.
        """
        stops = params.stop_token_ids | self.renderer.stop_token_ids
        strings = strings_for(self.renderer, self.limits.stop_strings)
        params = replace(params, stop_token_ids=stops, stop_strings=strings)
        begin = partial(
            Episode, self.renderer, self.make_environment, self.limits, task, engine, params, seed
        )
        split = "eval" if evaluation else "train"

        def play(*, last: bool) -> Coroutine[Any, Any, Trajectory]:
            episode = begin(f"{split}-{next(_SESSIONS)}-{task.id}")
            if watch is not None:
                watch(episode)
            return self._play(episode, last=last)

        for lost in range(self.limits.max_restarts):
            with suppress(WorkerLost), after_losses(lost):
                return await play(last=False)
        with after_losses(self.limits.max_restarts):
            return await play(last=True)

    async def _play(self, episode: Episode, *, last: bool) -> Trajectory:
        """Play an episode to its end, or until its worker is lost where it may begin again.

        Raises:
            WorkerLost: It is not the last attempt, and the worker ended.
        """
        try:
            stop_reason = await episode.play()
            error = None
        except EpisodeFailure as failure:
            running = asyncio.current_task()
            if running is not None and running.cancelling():
                raise asyncio.CancelledError from failure
            if isinstance(failure, WorkerLost) and not last:
                raise
            idle = isinstance(failure, NeverActed)
            stop_reason = StopReason.ABORTED if idle else StopReason.FAILED
            error = None if idle else EpisodeError.of(failure)
        finally:
            await episode.engine.release(episode.session)
        return Trajectory(
            task=episode.task,
            seed=episode.seed,
            segments=episode.stream.segments(),
            status=_STATUS.get(stop_reason, Status.TRUNCATED),
            stop_reason=stop_reason,
            error=error,
            timings=tuple(episode.timings),
            witness=episode.witness(),
        )
