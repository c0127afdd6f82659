"""Which episode plays in which worker: first come, first served, in the worker with most room."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass

from retrain.errors import RetrainError
from retrain.rollout.executors.worker import Worker


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """An episode's place in a worker.

    Attributes:
        worker: The worker.
        size: How many of its seats the episode takes: one, or all where it plays alone.
    """

    worker: Worker
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    size: int
    got: asyncio.Future[Seat]


_Waiters = deque[_Waiter]


class WorkerQueue:
    """Hands out seats in workers. Who comes back to a worker goes before who may have any.

    Attributes:
        workers: Those that take further episodes.
    """

    def __init__(self, seats: int) -> None:
        """Begin without workers.

        Args:
            seats: Most episodes that play in one worker at a time.
        """
        self.workers: list[Worker] = []
        self._seats = seats
        self._new: _Waiters = deque()
        self._alone: _Waiters = deque()
        self._back: defaultdict[Worker, _Waiters] = defaultdict(deque)
        self._reserved: Worker | None = None
        self._fault: RetrainError | None = None

    async def take(self, *, alone: bool = False) -> Seat:
        """Wait for a seat in any worker.

        Args:
            alone: Whether no other episode may play in that worker meanwhile.

        Raises:
            RetrainError: There will be none, as given to `fail`.
        """
        return await self._wait(self._alone if alone else self._new, self._seats if alone else 1)

    async def take_back(self, seat: Seat) -> None:
        """Wait for a seat that was released, in the same worker.

        A worker that has ended counts as having room, so that the next call to it can say so.

        Raises:
            RetrainError: There will be none, as given to `fail`.
        """
        await self._wait(self._back[seat.worker], seat.size, seat.worker)

    def release(self, seat: Seat) -> None:
        """Give a seat back."""
        seat.worker.playing -= seat.size
        self._serve(seat.worker)

    def join(self, worker: Worker) -> None:
        """Take a worker in."""
        self.workers.append(worker)
        self._serve(worker)

    def leave(self, worker: Worker) -> None:
        """Give a worker no further episodes."""
        self.workers.remove(worker)
        self._serve(worker)

    def fail(self, error: RetrainError) -> None:
        """Let everyone who waits for a seat, or will, fail with `error`."""
        self._fault = error
        for waiters in (self._new, self._alone, *self._back.values()):
            while (waiter := _head(waiters)) is not None:
                waiter.got.set_exception(_copy(error))

    async def _wait(self, waiters: _Waiters, size: int, worker: Worker | None = None) -> Seat:
        if self._fault is not None:
            raise _copy(self._fault)
        waiter = _Waiter(size, asyncio.get_running_loop().create_future())
        waiters.append(waiter)
        self._serve(worker)
        try:
            return await waiter.got
        except asyncio.CancelledError:
            got = waiter.got
            if got.done() and not got.cancelled() and got.exception() is None:
                self.release(got.result())
            else:
                self._serve(worker)
            raise

    def _serve(self, changed: Worker | None) -> None:
        """Hand out what is free.

        Args:
            changed: The worker whose seats have changed, for those who come back to it.
        """
        if changed is not None and changed in self._back:
            self._serve_back(changed, self._back[changed])
        self._serve_alone()
        while (waiter := _head(self._new)) is not None:
            worker = self._freest()
            if worker is None or worker.playing >= self._seats:
                break
            _seat(waiter, worker)

    def _serve_back(self, worker: Worker, waiters: _Waiters) -> None:
        while (waiter := _head(waiters)) is not None:
            if worker.lost is None and worker.playing + waiter.size > self._seats:
                return
            _seat(waiter, worker)
        del self._back[worker]

    def _serve_alone(self) -> None:
        """Keep one worker free of others for as long as somebody is to play alone."""
        waiter = _head(self._alone)
        if waiter is None:
            self._reserved = None
            return
        if self._reserved is None or not self._reserved.open:
            self._reserved = None
            self._reserved = self._freest()
        if self._reserved is not None and self._reserved.playing == 0:
            _seat(waiter, self._reserved)

    def _freest(self) -> Worker | None:
        """The worker with most room, if only a little."""
        workers = [w for w in self.workers if w.open and w is not self._reserved]
        return min(workers, key=lambda worker: worker.playing, default=None)


def _seat(waiter: _Waiter, worker: Worker) -> None:
    worker.playing += waiter.size
    waiter.got.set_result(Seat(worker, waiter.size))


def _head(waiters: _Waiters) -> _Waiter | None:
    """The one who has waited longest; those who have been served, or have left, are removed."""
    while waiters and waiters[0].got.done():
        waiters.popleft()
    return waiters[0] if waiters else None


def _copy(error: RetrainError) -> RetrainError:
    """The same error, for another place to raise."""
    return type(error)(*error.args)
