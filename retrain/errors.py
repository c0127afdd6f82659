"""The error model.

Every failure belongs to exactly one *boundary*: configuration, data, environment, tool, engine,
reward, rendering or backend. It is attributed once, where that boundary is crossed
(`async with boundary(EnvironmentFailure, "step")`), and nothing above it guesses again.

- Bad input (configuration, data, a missing package) raises a `RetrainError` whose message names the
  file, key or line, what was expected and what to do. The command line prints it and exits with 2.
- A failure inside an episode is data: the episode ends with `status=failed` and carries an
  `EpisodeError` (boundary, reason, traceback text). What happens next is the boundary's policy
  (retry, refill, mask, raise). It never becomes a reward of 0.
- Every class is also the standard type that a caller would catch, and survives pickling.
"""

from __future__ import annotations

import asyncio
import re
import sysconfig
import traceback
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from retrain.pausing import Deadline, holding


class Boundary(StrEnum):
    """Where a failure arose."""

    CONFIGURATION = "configuration"
    DATA = "data"
    ENVIRONMENT = "environment"
    TOOL = "tool"
    ENGINE = "engine"
    REWARD = "reward"
    RENDERING = "rendering"
    BACKEND = "backend"


class RetrainError(Exception):
    """Base of every error that retrain raises on purpose."""

    boundary: Boundary = Boundary.CONFIGURATION


class ConfigError(RetrainError, ValueError):
    """A configuration that cannot be run: the message names the key and what to do."""


class DataError(RetrainError, ValueError):
    """Prompt or state data that cannot be used: the message names the file and line."""

    boundary = Boundary.DATA


class MissingDependency(RetrainError, ImportError):
    """An optional package is not installed: the message holds the pip command."""


class RunFolderError(RetrainError, OSError):
    """The output folder cannot be used (it holds another run, or cannot be written)."""


class EpisodeFailure(RetrainError, RuntimeError):
    """Base of the failures that end an episode and travel on it as data."""


class EnvironmentFailure(EpisodeFailure):
    """`Environment.reset`, `step` or `close` raised, hung or returned something else."""

    boundary = Boundary.ENVIRONMENT


class WorkerLost(EnvironmentFailure):
    """The process or node that held the environment ended; the episode itself did nothing wrong.

    The episode is begun again with the same seeds, at most `rollout.executor.max_restarts` times.
    """


class ToolFailure(EpisodeFailure):
    """A tool's infrastructure failed; an error that the model can read is not one of these."""

    boundary = Boundary.TOOL


class EngineFailure(EpisodeFailure):
    """The inference engine raised, hung or answered something impossible."""

    boundary = Boundary.ENGINE


class RewardFailure(EpisodeFailure):
    """A reward component raised, hung or returned no finite number."""

    boundary = Boundary.REWARD


class RenderingFailure(EpisodeFailure):
    """The chat template cannot express these messages exactly."""

    boundary = Boundary.RENDERING


class BackendFailure(RetrainError, RuntimeError):
    """The training framework cannot do what was asked, or failed while doing it."""

    boundary = Boundary.BACKEND


class TooManyFailures(BackendFailure):
    """More of a batch failed than `rollout.max_failure_rate` allows."""


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """A failure as data, as it stands on a failed trajectory.

    Attributes:
        boundary: Where it arose.
        reason: One line: the operation, the exception's type and its message.
        traceback: The traceback as text, for reading only.
    """

    boundary: Boundary
    reason: str
    traceback: str = ""

    @classmethod
    def of(cls, failure: EpisodeFailure) -> EpisodeError:
        """Turn a failure into data."""
        text = "".join(traceback.format_exception(failure))
        return cls(failure.boundary, str(failure), text)

    @property
    def place(self) -> str:
        """The innermost line of the user's own code, as "FILE:LINE"; empty where there is none.

        Neither this package's files count as such, nor installed packages' and Python's own. Of
        exceptions that caused each other, the first one is looked at.
        """
        for section in self.traceback.split("\nTraceback (most recent call last):"):
            frames = re.findall(r'^ *File "([^"<>]+)", line (\d+)', section, re.MULTILINE)
            own = [f"{file}:{line}" for file, line in frames if not file.startswith(_NOT_THE_USERS)]
            if own:
                return own[-1]
        return ""


_CODE = Path(__file__).parent
_NOT_THE_USERS = tuple(
    f"{folder}/"
    for folder in (
        *(_CODE.parent / name for name in (_CODE.name, "bridges", "backends")),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)


def boundary(
    kind: type[EpisodeFailure], operation: str, *, timeout: float | None = None
) -> AbstractAsyncContextManager[None]:
    """Attribute whatever is raised inside to one boundary.

    A failure that already belongs to a boundary passes through, and so do a mistake in the
    configuration, a missing package, and cancellation of the task itself. A CancelledError that the
    code raises on its own is a failure, and so is an exit.

    Args:
        kind: The class of failure to raise.
        operation: What was being done, for the message ("step", "reset", …).
        timeout: Seconds after which the operation counts as hung, without those for which the
            episode is suspended; None waits for ever, and takes no clock.

    Raises:
        EpisodeFailure: `kind`, with the original exception as its cause.
    """
    return _Crossing(kind, operation, timeout)


class _Crossing:
    """What `boundary` gives: a class, since an episode crosses several boundaries every turn."""

    __slots__ = ("_clock", "_held", "_kind", "_operation", "_timeout")

    def __init__(self, kind: type[EpisodeFailure], operation: str, timeout: float | None) -> None:
        self._kind = kind
        self._operation = operation
        self._timeout = timeout
        self._clock: asyncio.Timeout | None = None

    async def __aenter__(self) -> None:
        if self._timeout is not None:
            self._clock = await asyncio.timeout(self._timeout).__aenter__()
            self._held = holding(Deadline(self._clock))
            self._held.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._clock is not None:
            self._held.__exit__(None, None, None)
            try:
                await self._clock.__aexit__(kind, error, trace)
            except TimeoutError as timeout:
                error = timeout
        if error is not None and not _passes(error):
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> EpisodeFailure:
        ended = isinstance(error, asyncio.CancelledError)
        if self._clock is not None and self._clock.expired() and not ended:
            return self._kind(f"{self._operation}: no answer within {self._timeout:g} s")
        return self._kind(f"{self._operation}: {type(error).__name__}: {error}")


def _passes(error: BaseException) -> bool:
    """Whether an exception crosses a boundary as it is."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    if isinstance(error, (EpisodeFailure, ConfigError, MissingDependency)):
        return True
    return not isinstance(error, (Exception, SystemExit))


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name is nearest to a wrong one, as the end of an error message."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none is known"
