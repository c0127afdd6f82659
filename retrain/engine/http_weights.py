"""New weights for servers over HTTP, and their memory while somebody else needs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retrain.engine.http_client import ServerFault
from retrain.engine.http_pool import Server, ServerPool
from retrain.engine.weight_calls import WeightCalls
from retrain.engine.weight_probe import WeightMovement, read_answers
from retrain.errors import EngineFailure

SEEN_SECONDS = 5.0
"""Seconds for which a server that named its weights is believed to have them still."""


@dataclass(slots=True)
class _Known:
    """What is known of one server.

    Attributes:
        holds: The version that it has loaded and was found to have.
        away: The version at which its memory was released; None while it has it.
        missing: Which memory it has to take again, in order.
        met: Whether it was asked to load before.
        seen_at: When it was last seen to have them, on the monotonic clock.
    """

    holds: str | None = None
    away: str | None = None
    missing: list[str] = field(default_factory=list)
    met: bool = False
    seen_at: float = 0.0


class ServerWeights:
    """Has the servers of one engine load weights, and knows which ones they must have.

    A server that fails is left out, and loads them when the pool checks it again.

    Attributes:
        version: What the servers have, or must have.
    """

    def __init__(
        self,
        calls: WeightCalls,
        pool: ServerPool,
        workers: Callable[[Server], Awaitable[Sequence[str]]],
        version: str = "0",
    ) -> None:
        """Take an engine's servers.

        Args:
            calls: What is asked of one.
            pool: The servers.
            workers: The URLs behind each: its own, or those of a router's workers.
            version: What the weights are called before the first update.
        """
        self.version = version
        self._calls = calls
        self._pool = pool
        self._workers = workers
        self._path: str | None = None
        self._sent: set[str] = set()
        self._expected: Sequence[float] | None = None
        self._movement = WeightMovement()
        self._known: dict[str, _Known] = {}

    async def update(self, path: str, version: str) -> None:
        """Load new weights into every server at the same time.

        Args:
            path: A folder of Hugging Face weights, as the servers see it.
            version: What they are called.

        Raises:
            EngineFailure: No server has them.
            ConfigError: A server cannot load weights as it is.
        """
        self._expected = await asyncio.to_thread(read_answers, Path(path))
        self._path, self.version = path, version
        self._sent.add(version)
        for known in self._known.values():
            known.holds = None
        await self._pool.start()  # what is checked now loads them
        await self._each(self._up(), self._load_into)

    async def catch_up(self, server: Server) -> None:
        """Have a server that is being checked load the weights that are expected, if it must.

        Before the first update nothing is expected, and its own version is taken as it is.

        Raises:
            EngineFailure: It cannot load them.
        """
        urls = await self._workers(server)
        if self._path is None:
            self.version = await self._calls.served(urls[0]) or self.version
            return
        for url in urls:
            served, known = await self._calls.served(url), self._of(url)
            if served != known.holds:
                known.holds = None
            while known.holds != self.version:  # which may move on meanwhile
                await self._load(url)

    async def release(self) -> None:
        """Have every server give its memory back; it writes nothing until the next load.

        Raises:
            EngineFailure: No server could; those that could not are left out.
            ConfigError: A server cannot as it was started.
        """
        await self._each(self._up(), self._release_on)

    async def resume(self) -> None:
        """Have every server that gave its memory back take it again, with the newest weights.

        Raises:
            EngineFailure: No server could.
        """
        if any(known.missing for known in self._known.values()):
            await self._each(self._up(), self._load_into)

    def require_sent(self, server: Server, version: str) -> None:
        """See that a server wrote with weights that this engine sent it.

        One that has started again writes with those of its start.

        Raises:
            ServerFault: It has others: it is to be left out, and the turn to be written again.
        """
        if self._sent and version not in self._sent:
            raise ServerFault(
                f"{server.url}: writes with weights called {version!r}, which this run has not "
                "sent: it has started again, or somebody else updates it",
                lost=True,
                passing=True,
            )

    async def require_kept(self, server: Server) -> None:
        """`require_sent`, of a server whose answers do not name their weights: it is asked.

        It is not asked again within `SEEN_SECONDS`, in which no server starts.

        Raises:
            ServerFault: It has others.
        """
        for url in await self._workers(server):
            known, asked = self._of(url), time.monotonic()
            if known.holds is None or asked - known.seen_at < SEEN_SECONDS:
                continue
            served = await self._calls.served(url)
            if served is not None:
                self.require_sent(server, served)
            known.seen_at = asked

    def _up(self) -> list[Server]:
        return [server for server in self._pool.servers if server.up]

    async def _each(
        self, servers: Sequence[Server], work: Callable[[Server], Awaitable[None]]
    ) -> None:
        """Work on servers at the same time; those where it fails are left out.

        Raises:
            EngineFailure: It failed on all of them.
        """
        outcomes = await asyncio.gather(*map(work, servers), return_exceptions=True)
        faults = [outcome for outcome in outcomes if outcome is not None]
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, EngineFailure):
                self._pool.leave_out(server, outcome)
            elif outcome is not None:
                raise outcome
        if faults and len(faults) == len(servers):
            raise faults[0]

    async def _load_into(self, server: Server) -> None:
        for url in await self._workers(server):
            if self._of(url).holds != self.version:
                await self._load(url)

    async def _load(self, url: str) -> None:
        """Pause one server, load weights, go on, and see that it has them.

        A server whose memory could not be taken again stays paused: it has nothing to write with.

        Raises:
            EngineFailure: It refused, or has other weights afterwards.
        """
        calls, known = self._calls, self._of(url)
        path, version, expected = str(self._path), self.version, self._expected
        known.holds = None
        if known.met:
            await self._forget_if_restarted(url)
        else:
            await calls.wake(url)
            known.met = True
        await calls.pause(url)
        try:
            if "weights" in known.missing:
                await calls.take_weights(url)
                known.missing.remove("weights")
            await calls.load(url, path, version)
            if "cache" in known.missing:
                await calls.take_cache(url)
                known.missing.remove("cache")
            served = await calls.served(url)
        finally:
            if not known.missing:
                await calls.go_on(url)
        if served not in (None, version):
            raise EngineFailure(
                f"{url}: the weights did not move: the server said that it loaded them, and its "
                f"weight version is {served!r}, not {version!r}"
            )
        if expected is not None:
            self._movement.require_fresh(url, await calls.answers(url), expected)
        known.holds, known.seen_at = version, time.monotonic()

    async def _release_on(self, server: Server) -> None:
        for url in await self._workers(server):
            known = self._of(url)
            known.holds = None
            await self._calls.pause(url)
            await self._calls.release(url)
            known.away, known.missing = self.version, ["weights", "cache"]

    async def _forget_if_restarted(self, url: str) -> None:
        """A server that has started again has its memory, and must not be told to take it."""
        known = self._of(url)
        if known.missing and await self._calls.served(url) not in (None, known.away):
            known.missing.clear()

    def _of(self, url: str) -> _Known:
        return self._known.setdefault(url, _Known())


class LoadingServers:
    """What an engine can do whose servers load weights; it keeps its `ServerWeights`."""

    _weights: ServerWeights

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        """Load new weights into every server at the same time, and check that it has them.

        Running requests are aborted by the servers and return with what they have written. A server
        that fails is left out (`left_out`), and loads the newest weights when it is back.

        Args:
            path: A folder of Hugging Face weights, as the servers see it.
            version: The version from now on.

        Raises:
            EngineFailure: No server has them.
            ConfigError: A server cannot load weights as it is.
        """
        await self._weights.update(path, version)

    async def release_memory(self) -> None:
        """Have the servers give their memory back until the next update, or `resume_memory`.

        Raises:
            EngineFailure: No server could.
            ConfigError: A server cannot as it was started.
        """
        await self._weights.release()

    async def resume_memory(self) -> None:
        """Have the servers take their memory again, with the newest weights.

        Raises:
            EngineFailure: No server could.
        """
        await self._weights.resume()
