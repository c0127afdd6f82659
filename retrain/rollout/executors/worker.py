"""One worker, as the process that plays the episodes sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

from retrain.errors import WorkerLost
from retrain.rollout.executors.faults import rebuild_fault
from retrain.rollout.executors.link import Link
from retrain.rollout.executors.wire import decode, encode


class Worker:
    """Calls environments in one worker, and notices when it ends or hangs.

    Attributes:
        link: The connection.
        playing: Its seats that are taken; suspended episodes have given theirs up.
        seated: Environments that it holds.
        proven: Whether it has made an environment.
        dismissed: Whether it has been told to end by itself.
        lost: Why it is no more; None while it lives.
    """

    def __init__(self, link: Link, *, grace: float) -> None:
        """Take a connection.

        Args:
            link: The connection.
            grace: Seconds that a call which was broken off may take to let go.
        """
        self.link = link
        self.playing = 0
        self.seated = 0
        self.proven = False
        self.dismissed = False
        self.lost: str | None = None
        self._grace = grace
        self._numbers = count()
        self._over = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether it takes further episodes."""
        return self.lost is None and not self._over.is_set()

    def number(self) -> int:
        """The number of the next message."""
        return next(self._numbers)

    async def exchange(self, number: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and read its answer.

        Args:
            number: The message's number, by which it can be withdrawn.
            asked: The call, its session and its arguments; see `EnvironmentHost`.

        Raises:
            RetrainError: What was raised in the worker; `WorkerLost` where the worker ended.
        """
        if self.lost is not None:
            raise self._loss(self.lost)
        try:
            answer = decode(await self.link.exchange(number, encode(asked)))
        except WorkerLost as error:
            self.lose(str(error))
            raise self._loss(self.lost or str(error)) from None
        if "fault" in answer:
            raise rebuild_fault(answer["fault"], self.link.name)
        result: dict[str, Any] = answer.get("result", {})
        return result

    async def withdraw(self, number: int) -> None:
        """Break a call off; a worker that does not let go of it is ended."""
        try:
            async with asyncio.timeout(self._grace):
                cancel = {"call": "cancel", "target": number}
                await self.exchange(self.number(), cancel)
        except WorkerLost:
            return
        except TimeoutError:
            self.lose(
                f"it was ended, since it did not answer for {self._grace:g} s after a call was "
                "broken off"
            )

    def lose(self, why: str) -> None:
        """End it now; whatever waits for it fails with `WorkerLost`."""
        if self.lost is None:
            self.lost = why
            self._over.set()
            self.link.kill()

    def dismiss(self) -> None:
        """Let it end by itself; from any thread."""
        self.dismissed = True
        self.lost = self.lost or "the run has ended"
        self.link.dismiss()

    def retire(self) -> None:
        """Give it no further episodes."""
        self._over.set()

    async def over(self) -> None:
        """Wait until it takes no further episodes: it has ended, or is to be replaced."""
        ended = asyncio.create_task(self.link.ended())
        retired = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({ended, retired}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                self.lose(ended.result())
        finally:
            ended.cancel()
            retired.cancel()

    def _loss(self, why: str) -> WorkerLost:
        return WorkerLost(f"the worker that held the environment ended ({self.link.name}): {why}")
