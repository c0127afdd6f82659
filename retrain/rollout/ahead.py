"""`CollectingAhead`: the next batch is collected while the last one is trained on."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from retrain.closing import AsyncClosing
from retrain.errors import ConfigError
from retrain.rollout.filling import Batch
from retrain.rollout.manager import RolloutManager


class CollectingAhead(AsyncClosing):
    """Collects with a manager ahead of the trainer; an asynchronous context manager.

    One batch is collected ahead, in a task of its own, from when `collect` has given the one
    before. The engine must not share the trainer's weights: they change only within
    `weights_changing`, where turns are suspended; afterwards they go on from their tokens. No
    group of a batch has seen more than `max_staleness` changes since it was begun, counted until
    the batch is given.

    The manager's state may be taken at any time: a batch that is collected ahead is part of it.

    Attributes:
        seconds: How long it took to collect the batch that was given last.
    """

    def __init__(self, manager: RolloutManager) -> None:
        """Collect ahead from the first `collect` on.

        Args:
            manager: Collects; nobody else calls its `collect`.

        Raises:
            ConfigError: It takes no batch that older weights began.
        """
        how = manager.how
        if how.max_staleness is not None and how.max_staleness < 1:
            raise ConfigError(
                "max_staleness: 0 allows no older weights, and a batch that is collected ahead is "
                "one update old; use 1"
            )
        if how.mask_stale:
            raise ConfigError(
                "mask_stale: would mask every token of a batch that is collected ahead, as older "
                "weights wrote it; use importance correction instead"
            )
        self._manager = manager
        self.seconds = self._spent = 0.0
        self._coming: asyncio.Task[None] | None = None

    async def collect(self, *, last: bool = False) -> Batch:
        """Give the batch that was collected ahead, and begin the next one.

        A call that is cancelled leaves the batch to the next call.

        Args:
            last: Nothing is trained on after this batch, so begin none.

        Raises:
            RetrainError: What `RolloutManager.collect` raises, if collecting ahead failed; what
                was collected is kept, and a further call goes on there.
        """
        if self._coming is not None:
            await asyncio.wait([self._coming])
            ended, self._coming = self._coming, None
            if not ended.cancelled():
                ended.result()
        began = time.perf_counter()
        batch = await self._manager.take_batch()
        self.seconds, self._spent = self._spent + time.perf_counter() - began, 0.0
        if not last:
            self._coming = asyncio.create_task(self._fill(), name="collecting ahead")
        return batch

    def weights_changing(self) -> AbstractAsyncContextManager[None]:
        """Keep every group out of the engine while the context lasts; then they go on.

        Do not wait for a batch within it: it is collected afterwards. Change the weights between
        batches: where they change on while a batch is waited for, a group that outlasts
        `max_staleness` changes begins again each time.
        """
        return self._manager.weights_changing()

    async def close(self) -> None:
        """Stop collecting; the manager keeps what was collected, and begins the rest again."""
        if self._coming is not None:
            ended, self._coming = self._coming, None
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        await self._manager.close()

    async def _fill(self) -> None:
        began = time.perf_counter()
        try:
            await self._manager.fill()
        finally:
            self._spent += time.perf_counter() - began
