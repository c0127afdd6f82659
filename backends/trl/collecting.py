"""Playing given groups over all processes: each plays its share, and all see the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bridges import RolloutBridge
from retrain.errors import BackendFailure, RetrainError
from retrain.launch import Launch
from retrain.rollout.request import GroupRequest
from retrain.runtime import EventLoopThread
from retrain.types import Group

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Collected:
    """The groups of one collection.

    Attributes:
        groups: All of them, in the order asked for.
        own: Those that this process played.
        seconds: How long it took, until the last process was done.
    """

    groups: Sequence[Group]
    own: Sequence[Group]
    seconds: float


class Collector:
    """Plays groups on the loop, sliced by rank."""

    def __init__(self, rollouts: RolloutBridge, loop: EventLoopThread, launch: Launch) -> None:
        """Make a collector.

        Args:
            rollouts: Plays and scores one process's groups.
            loop: Runs the episodes.
            launch: Which process this is.
        """
        self.rollouts = rollouts
        self._loop = loop
        self._launch = launch

    def collect(self, requests: Sequence[GroupRequest]) -> Collected:
        """Play `requests`, the same list on every process.

        Raises:
            RetrainError: What failed on this process, or which rank failed: nobody waits for ever.
        """
        began = time.perf_counter()
        share = self._launch.share(requests)
        own = in_step(lambda: self._loop.run(self.rollouts.collect(share)), self._launch)
        return Collected(self._launch.gather(own), own, time.perf_counter() - began)


def in_step(play: Callable[[], T], launch: Launch) -> T:
    """Do one process's part, and fail on all processes where one fails.

    Args:
        play: Does it.
        launch: Which process this is.

    Raises:
        RetrainError: What failed on this process, or which rank failed.
    """
    failure: RetrainError | None = None
    done: list[T] = []
    try:
        done.append(play())
    except RetrainError as error:
        failure = error
    except (RuntimeError, ValueError, TypeError, OSError, ExceptionGroup) as error:
        failure = BackendFailure(f"rollout: {type(error).__name__}: {error}")
        failure.__cause__ = error
    launch.agree(failure)
    return done[0]
