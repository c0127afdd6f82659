"""The workers of one event loop: started, given episodes, and replaced when they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from retrain.errors import BackendFailure, ConfigError, RetrainError, WorkerLost
from retrain.rollout.executors.base import Origin
from retrain.rollout.executors.link import Launcher
from retrain.rollout.executors.queue import Seat, WorkerQueue
from retrain.rollout.executors.worker import Worker
from retrain.watchdog import Tell

READY_SECONDS = 300.0
"""How long a worker may take to start and to import the environment."""

LINGER_SECONDS = 10.0
"""How long a closed environment may still run a call before its worker is replaced."""


@dataclass(frozen=True, slots=True)
class CrewSettings:
    """How workers are used.

    Attributes:
        workers: How many; None is as many as there is room for.
        episodes_per_worker: Most episodes that play in a worker at a time.
        max_restarts: How often in a row a worker may end before it has made an environment, until
            the run stops.
        grace: Seconds that a call which was broken off may take to let go of its worker.
    """

    workers: int | None = None
    episodes_per_worker: int = 16
    max_restarts: int = 3
    grace: float = 10.0


_HELD = "a call that was broken off still ran in it"


class Crew:
    """Keeps workers at work."""

    def __init__(
        self, launcher: Launcher, origin: Origin, settings: CrewSettings, tell: Tell
    ) -> None:
        """Begin to start workers, on the running loop.

        Args:
            launcher: Starts one.
            origin: What they make.
            settings: How they are used.
            tell: Takes messages about workers that end.
        """
        self.loop = asyncio.get_running_loop()
        self.queue = WorkerQueue(settings.episodes_per_worker)
        self._launcher = launcher
        self._origin = origin
        self._settings = settings
        self._tell = tell
        self._workers: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._killed = False
        self._starting = self._spawn(self._start())

    @property
    def stopped(self) -> bool:
        """Whether it has been ended, by `kill` or together with the tasks of its loop."""
        return self._killed or self.loop.is_closed() or self._starting.cancelled()

    async def seat(self, *, alone: bool) -> Seat:
        """Wait for a worker with room for one more episode.

        Args:
            alone: Whether the episode must not share its worker.

        Raises:
            RetrainError: There is none, and will be none.
        """
        seat = await self.queue.take(alone=alone)
        seat.worker.seated += 1
        return seat

    def leave(self, seat: Seat, session: int, *, playing: bool, busy: bool) -> None:
        """Give a seat back, once nothing of its episode runs any more.

        Args:
            seat: The seat.
            session: The episode.
            playing: Whether it was playing; a suspended one has given its seat up already.
            busy: Whether a call that was broken off may still run.
        """
        if busy and seat.worker.lost is None:
            self._spawn(self._linger(seat, session, playing=playing))
        else:
            self._left(seat, playing=playing)

    def kill(self, *, patience: float = 0.0) -> None:
        """End all workers; from any thread, and more than once.

        Args:
            patience: Seconds that they may take to end by themselves.
        """
        self._killed = True
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._cancel)
        workers, until = list(self._workers), time.monotonic() + patience
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.link.kill(patience=max(0.0, until - time.monotonic()))

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start(self) -> None:
        try:
            room = await self._launcher.open()
            keepers = [self._keep() for _ in range(self._settings.workers or max(room, 1))]
            await asyncio.gather(*keepers)
        except RetrainError as error:
            self.queue.fail(error)
        except Exception as error:  # noqa: BLE001 - handed over to every episode that waits
            self.queue.fail(BackendFailure(f"rollout.executor: {type(error).__name__}: {error}"))

    async def _keep(self) -> None:
        """Have one worker at work at all times.

        Raises:
            RetrainError: There can be none.
        """
        fruitless = 0
        while True:
            proven = False
            try:
                worker = await self._begin()
                await self._employ(worker)
                end, proven = f"{worker.link.name}: {worker.lost or _HELD}", worker.proven
            except WorkerLost as lost:
                end = str(lost)
            fruitless = 0 if proven else fruitless + 1
            if fruitless > self._settings.max_restarts:
                raise BackendFailure(
                    f"rollout.executor: {fruitless} workers in a row ended before they had made "
                    f"an environment (max_restarts: {self._settings.max_restarts}); the last one, "
                    f"{end}"
                )
            self._tell(f"a worker is replaced: {end}")

    async def _begin(self) -> Worker:
        """Start a worker and wait until it can make environments."""
        while True:
            worker = Worker(await self._launcher.launch(), grace=self._settings.grace)
            self._workers.add(worker)
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await self._tell_origin(worker)
                return worker
            except TimeoutError:
                worker.lose("it did not start")
                self._not_ready(worker)
            except BaseException:
                self._drop(worker)
                raise

    async def _tell_origin(self, worker: Worker) -> None:
        origin = self._origin
        asked = {"type": origin.type, "config": origin.config, "path": origin.path}
        try:
            await worker.exchange(worker.number(), {"call": "begin", **asked})
        except WorkerLost:
            raise
        except RetrainError as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            raise ConfigError(
                f"environment: cannot be made in a worker ({worker.link.name}): {error}\n{notes}"
            ) from None

    def _not_ready(self, worker: Worker) -> None:
        self._drop(worker)
        lacking = self._launcher.lacking()
        message = f"no worker was ready within {READY_SECONDS:g} s{lacking and f': {lacking}'}"
        if not self.queue.workers:
            raise BackendFailure(f"rollout.executor: {message}")
        self._tell(f"{message}; the others go on, and it is tried again")

    async def _employ(self, worker: Worker) -> None:
        """Let a worker play for as long as it takes further episodes."""
        self.queue.join(worker)
        try:
            await worker.over()
        except asyncio.CancelledError:
            worker.dismiss()
            raise
        finally:
            self.queue.leave(worker)
        if worker.lost is not None or not worker.seated:
            self._drop(worker)

    async def _linger(self, seat: Seat, session: int, *, playing: bool) -> None:
        """Wait for an environment that still runs a call, and replace its worker if that lasts."""
        worker = seat.worker
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                asked = {"call": "linger", "session": session}
                await worker.exchange(worker.number(), asked)
        except TimeoutError:
            worker.retire()
        except WorkerLost:
            pass
        finally:
            self._left(seat, playing=playing)

    def _left(self, seat: Seat, *, playing: bool) -> None:
        worker = seat.worker
        worker.seated -= 1
        if playing:
            self.queue.release(seat)
        if not worker.open and not worker.seated:
            self._drop(worker)

    def _drop(self, worker: Worker) -> None:
        """End a worker now, unless it ends by itself and `kill` waits for it."""
        if worker.dismissed:
            return
        self._workers.discard(worker)
        worker.lose("it was no longer needed")
