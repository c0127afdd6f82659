"""`TrainFuture`: work that a training backend does while its caller prepares the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TrainFuture(Generic[T]):
    """The coming result of one piece of work; `await` it, or `await future.result()`.

    Whoever stops waiting does not stop the work: what a device has begun it ends.
    """

    def __init__(self, future: Future[T]) -> None:
        """Wrap a future of a thread pool."""
        self._future = future

    @property
    def done(self) -> bool:
        """Whether the result, or the failure, is there."""
        return self._future.done()

    async def result(self) -> T:
        """Wait for the result.

        Raises:
            RetrainError: What the work failed with.
        """
        return await asyncio.shield(asyncio.wrap_future(self._future))

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()


class WorkQueue:
    """Does one piece of work after the other, in the order given, in a thread of its own.

    After a failure nothing more is done: what follows was meant for another state.
    """

    def __init__(self, name: str) -> None:
        """Start the thread with the first work.

        Args:
            name: The thread's name.
        """
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._failure: BaseException | None = None

    def put(self, work: Callable[[], T]) -> TrainFuture[T]:
        """Queue work; its future fails with the failure of what went before it."""
        return TrainFuture(self._pool.submit(self._do, work))

    def close(self, *, drop: bool = False) -> None:
        """Wait for what is queued; queue nothing afterwards.

        Args:
            drop: Wait for what has begun alone, and do nothing of the rest.
        """
        self._pool.shutdown(wait=True, cancel_futures=drop)

    def _do(self, work: Callable[[], T]) -> T:
        if self._failure is not None:
            raise self._failure
        try:
            return work()
        except BaseException as failure:
            self._failure = failure
            raise
