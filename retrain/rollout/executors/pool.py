"""`WorkerPool`: the executor whose environments live in workers."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping

from retrain.environment.base import Environment
from retrain.errors import BackendFailure, EnvironmentFailure
from retrain.rollout.executors.base import Origin
from retrain.rollout.executors.crew import Crew, CrewSettings
from retrain.rollout.executors.environment import RemoteEnvironment
from retrain.rollout.executors.link import Launcher
from retrain.watchdog import Tell, to_stderr

LEAVE_SECONDS = 5.0
"""How long workers may take to run their exit handlers when the pool is closed."""


class WorkerPool:
    """Makes environments in workers, which are started when the first one is placed.

    Workers belong to the event loop that plays the episodes. Where that loop has ended, or its
    tasks have been cancelled, the next environment starts new ones.
    """

    def __init__(
        self,
        launcher: Launcher,
        origin: Origin,
        settings: CrewSettings,
        here: Callable[[], Environment],
        *,
        worlds: bool = False,
        tell: Tell = to_stderr,
    ) -> None:
        """Make a pool; nothing is started yet.

        Args:
            launcher: Starts workers.
            origin: What they make.
            settings: How they are used.
            here: Makes one environment in this process.
            worlds: Whether reward functions may read an environment's attributes after the episode.
            tell: Takes messages about workers that end.
        """
        self._launcher = launcher
        self._origin = origin
        self._settings = settings
        self.here = here
        self._worlds = worlds
        self._tell = tell
        self._declared: Mapping[str, bool] | None = None
        self._crews: list[Crew] = []
        self._end = weakref.finalize(self, _end, self._crews, launcher)

    def make(self) -> RemoteEnvironment:
        """Make an environment that takes its place in a worker before its first call."""
        return RemoteEnvironment(self, worlds=self._worlds)

    def declare(self, declared: Mapping[str, bool]) -> None:
        """Note what an environment in a worker has declared about all of its kind."""
        self._declared = declared

    def declared(self, name: str) -> bool:
        """What environments declare, as the first one that was made in a worker has said.

        Args:
            name: One of `DECLARED`.

        Raises:
            EnvironmentFailure: None has been made yet.
        """
        if self._declared is None:
            raise EnvironmentFailure(f"{name}: no environment has its place in a worker yet")
        return self._declared[name]

    def crew(self) -> Crew:
        """The workers of the running loop, started now if there are none.

        Raises:
            BackendFailure: The pool is closed, or its workers belong to another loop that runs.
        """
        if not self._end.alive:
            raise BackendFailure("rollout.executor: the run has ended, and its workers with it")
        if self._crews and self._crews[-1].stopped:
            self._crews.pop().kill()
        if not self._crews:
            crew = Crew(self._launcher, self._origin, self._settings, self._tell)
            self._crews.append(crew)
        (crew,) = self._crews
        if crew.loop is not asyncio.get_running_loop():
            raise BackendFailure(
                "rollout.executor: the workers belong to another event loop, which still runs; "
                "play all episodes of a run on one loop"
            )
        return crew

    def close(self) -> None:
        """End all workers, and wait until they have ended; from any thread, and more than once."""
        self._end()


def _end(crews: list[Crew], launcher: Launcher) -> None:
    for crew in crews:
        crew.kill(patience=LEAVE_SECONDS)
    launcher.close()
