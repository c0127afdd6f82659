"""One server's weights and memory: what it has, and how it gets what it must have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrain.engine.weight_calls import WeightCalls
from retrain.engine.weight_probe import WeightMovement
from retrain.errors import ConfigError, EngineFailure


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What servers must have; two are the same only where they are one object.

    Attributes:
        path: A folder of Hugging Face weights, as the servers see it.
        version: What they are called.
        expected: What the trainer's model answers to `weight_probe.PROMPTS`; None where unknown.
    """

    path: str
    version: str
    expected: Sequence[float] | None


class WeightedServer:
    """What is known of one server's weights and memory.

    Attributes:
        url: Its base URL.
        holds: What it has loaded and was found to have.
        seen_at: When it was last seen to have them, on the monotonic clock.
    """

    def __init__(self, url: str, calls: WeightCalls, movement: WeightMovement) -> None:
        """Take a server that was asked nothing yet.

        Args:
            url: Its base URL.
            calls: What is asked of it.
            movement: Compares its answers with the trainer's.
        """
        self.url = url
        self.holds: Weights | None = None
        self.seen_at = 0.0
        self._calls = calls
        self._movement = movement
        self._met = False
        self._away: str | None = None
        self._missing: list[str] = []
        self._one_at_a_time = asyncio.Lock()

    @property
    def released(self) -> bool:
        """Whether it has memory to take again."""
        return bool(self._missing)

    async def bring(self, wanted: Callable[[], Weights]) -> None:
        """Have it load until it has what is wanted, which may move on meanwhile.

        Raises:
            EngineFailure: It refused, or has other weights afterwards.
        """
        async with self._one_at_a_time:
            while self.holds is not wanted():
                await self._load(wanted())

    async def release(self, version: str) -> None:
        """Have it give its memory back; it stays paused.

        Args:
            version: What its weights are called, by which it is told from one that started again.

        Raises:
            EngineFailure: It did not.
            ConfigError: It cannot as it was started; it goes on.
        """
        async with self._one_at_a_time:
            self.holds = None
            await self._calls.pause(self.url)
            try:
                await self._calls.release(self.url)
            except ConfigError:
                await self._calls.go_on(self.url)
                raise
            self._away, self._missing = version, ["weights", "cache"]

    async def _load(self, weights: Weights) -> None:
        """Pause it, load weights, go on, and see that it has them.

        A server whose memory could not be taken again stays paused: it has nothing to write with.

        Raises:
            EngineFailure: It refused, or has other weights afterwards.
        """
        calls, url = self._calls, self.url
        self.holds = None
        await self._meet()
        await calls.pause(url)
        try:
            if "weights" in self._missing:
                await calls.take_weights(url)
                self._missing.remove("weights")
            await calls.load(url, weights.path, weights.version)
            if "cache" in self._missing:
                await calls.take_cache(url)
                self._missing.remove("cache")
            served = await calls.served(url)
        finally:
            if not self._missing:
                await calls.go_on(url)
        if served not in (None, weights.version):
            raise EngineFailure(
                f"{url}: the weights did not move: the server said that it loaded them, and its "
                f"weight version is {served!r}, not {weights.version!r}"
            )
        if weights.expected is not None:
            self._movement.require_fresh(url, await calls.answers(url), weights.expected)
        self.holds, self.seen_at = weights, time.monotonic()

    async def _meet(self) -> None:
        """Wake a server that a killed run may have left asleep.

        One that has started again since its release has its memory, and is not told to take it.
        """
        if not self._met:
            await self._calls.wake(self.url)
            self._met = True
        elif self._missing and await self._calls.served(self.url) not in (None, self._away):
            self._missing.clear()
