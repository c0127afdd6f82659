"""What an executor is, and what an episode asks of an environment that is elsewhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from retrain.environment.base import Environment
from retrain.pausing import holding

DECLARED = ("rewrites_history", "replayable")
"""What environments declare about themselves, the same for all of a run."""


class Executor(Protocol):
    """Makes environments for episodes, wherever they run."""

    def make(self) -> Environment:
        """Make one environment; called once an episode, on the event loop that plays it."""
        ...

    def here(self) -> Environment:
        """Make one environment in this process, for a dry run."""
        ...

    def close(self) -> None:
        """End everything that was started; from any thread, and more than once."""
        ...


class PlacedEnvironment(Environment):
    """An environment that needs a place in a worker before it can be used."""

    @abstractmethod
    async def place(self) -> None:
        """Wait for a worker with room and make the environment there.

        Raises:
            EnvironmentFailure: It cannot be made.
            BackendFailure: There is no worker left.
        """

    @abstractmethod
    def pause(self) -> None:
        """Let another episode play in this one's place; the environment stays where it is."""

    @abstractmethod
    async def resume(self) -> None:
        """Wait until this episode may play again."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a worker makes environments.

    Attributes:
        type: A name or an import path, as `environment.type`.
        config: Keyword arguments, as `environment.env_specific_config`.
        path: Where this process imports from; a worker imports from there too.
    """

    type: str
    config: Mapping[str, Any]
    path: tuple[str, ...] = ()


class LocalExecutor:
    """Environments live in this process, on the event loop that plays them."""

    def __init__(self, make: Callable[[], Environment]) -> None:
        """Take what makes one environment."""
        self.make = make
        self.here = make

    def close(self) -> None:
        """Nothing was started."""


@asynccontextmanager
async def placed(environment: Environment) -> AsyncIterator[None]:
    """Give an environment its place for as long as the context lasts, where it needs one.

    Args:
        environment: The environment, or one that wraps it as its `inner`.

    Raises:
        EnvironmentFailure: It cannot be made.
        BackendFailure: There is no worker left.
    """
    inner: object = environment
    while isinstance(inner, Environment) and not isinstance(inner, PlacedEnvironment):
        inner = getattr(inner, "inner", None)
    if not isinstance(inner, PlacedEnvironment):
        yield
        return
    await inner.place()
    with holding(inner):
        yield


_LOST: ContextVar[int] = ContextVar("retrain_workers_lost", default=0)


@contextmanager
def after_losses(number: int) -> Iterator[None]:
    """Say how many workers have been lost under the episode that the running task plays."""
    token = _LOST.set(number)
    try:
        yield
    finally:
        _LOST.reset(token)


def workers_lost() -> int:
    """How many workers have been lost under the running task's episode."""
    return _LOST.get()
