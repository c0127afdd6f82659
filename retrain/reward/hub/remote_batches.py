"""Puts cases that come one by one into batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from retrain.errors import RewardFailure
from retrain.reward.hub.service_loops import SharedWork

Send: TypeAlias = "Callable[[Sequence[bytes]], Awaitable[Sequence[float | RewardFailure]]]"
"""Sends items, and gives for each its score or why it has none."""


class Batches:
    """Batches of one event loop.

    A batch is sent when it is full or its time is over, as soon as there is room for a request;
    until then further items join it.

    Args:
        size: Most items in one.
        delay: Seconds for which one waits to be full.
        room: Held while a batch is sent.
        send: Sends one.
    """

    def __init__(self, size: int, delay: float, room: asyncio.Semaphore, send: Send) -> None:
        self._size = size
        self._delay = delay
        self._room = room
        self._send = send
        self._open: _Batch | None = None

    async def score(self, item: bytes) -> float:
        """The score of an item, once its batch has been answered.

        Raises:
            RewardFailure: It has none.
        """
        batch, place = self._join(item)
        try:
            outcomes = await batch.work.result()
        finally:
            batch.items.pop(place, None)
            if self._open is batch and not batch.work.waiting:
                self._open = None  # it has been ended
        outcome = outcomes[place]
        if isinstance(outcome, RewardFailure):
            raise outcome
        return outcome

    def _join(self, item: bytes) -> tuple[_Batch, int]:
        if self._open is None:
            self._open = _Batch(self._deliver)
        batch = self._open
        place = batch.put(item)
        if batch.taken == self._size:
            batch.full.set()
            self._open = None
        return batch, place

    async def _deliver(self, batch: _Batch) -> dict[int, float | RewardFailure]:
        if self._delay:
            await _within(batch.full, self._delay)
        async with self._room:
            if self._open is batch:
                self._open = None
            batch.work.begin()
            places, items = list(batch.items), list(batch.items.values())
            return dict(zip(places, await self._send(items), strict=True))


class _Batch:
    """Items that go together; one whose caller leaves before it is sent is left out."""

    def __init__(
        self, deliver: Callable[[_Batch], Awaitable[dict[int, float | RewardFailure]]]
    ) -> None:
        self.items: dict[int, bytes] = {}
        self.taken = 0
        self.full = asyncio.Event()
        self.work: SharedWork[dict[int, float | RewardFailure]] = SharedWork(
            lambda _: deliver(self)
        )

    def put(self, item: bytes) -> int:
        """Add an item, and give its place."""
        self.items[self.taken] = item
        self.taken += 1
        return self.taken - 1


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not for longer than this."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
