"""New weights for servers over HTTP, and their memory while somebody else needs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from retrain.engine.http_client import ServerFault
from retrain.engine.http_pool import Server, ServerPool
from retrain.engine.weight_calls import WeightCalls
from retrain.engine.weight_probe import WeightMovement, read_answers
from retrain.engine.weighted_server import WeightedServer, Weights
from retrain.errors import EngineFailure

SEEN_SECONDS = 5.0
"""Seconds for which a server that named its weights is believed to have them still."""


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
        self._wanted: Weights | None = None
        self._sent: set[str] = set()
        self._movement = WeightMovement()
        self._known: dict[str, WeightedServer] = {}

    async def update(self, path: str, version: str) -> None:
        """Load new weights into every server at the same time.

        Args:
            path: A folder of Hugging Face weights, as the servers see it.
            version: What they are called.

        Raises:
            EngineFailure: No server has them.
            ConfigError: A server cannot load weights as it is.
        """
        expected = await asyncio.to_thread(read_answers, Path(path))
        self._wanted, self.version = Weights(path, version, expected), version
        self._sent.add(version)
        await self._pool.start()  # what is checked now loads them
        await self._each(self._up(), self.load_newest)

    async def catch_up(self, server: Server) -> None:
        """Have a server that is being checked load the weights that are expected, if it must.

        Before the first update nothing is expected, and its own version is taken as it is. The
        check ends with `load_newest`, as an update may begin while it asks other things.

        Raises:
            EngineFailure: It cannot load them.
        """
        urls = await self._workers(server)
        if self._wanted is None:
            served = await self._calls.served(urls[0])
            if self._wanted is None:  # no update has begun meanwhile
                self.version = served or self.version
                return
        for url in urls:
            known, named = self._of(url), await self._calls.served(url)
            if known.holds is not None and named != known.holds.version:
                known.holds = None
        await self.load_newest(server)

    async def load_newest(self, server: Server) -> None:
        """Bring a server to the newest weights; the last thing that its check does.

        Weights that come while it is asked something else are loaded here: when this returns, and
        until the next `await`, it has the newest.

        Raises:
            EngineFailure: It cannot load them.
        """
        known = [self._of(url) for url in await self._workers(server)]
        while late := [one for one in known if one.holds is not self._wanted]:
            await late[0].bring(self._newest)

    async def release(self) -> None:
        """Have every server give its memory back; it writes nothing until the next load.

        Raises:
            EngineFailure: No server could; those that could not are left out.
            ConfigError: A server cannot as it was started.
        """
        await self._pool.settled()  # a server that is being checked takes memory, too
        await self._each(self._up(), self._release_on)

    async def resume(self) -> None:
        """Have every server that gave its memory back take it again, with the newest weights.

        Raises:
            EngineFailure: No server could.
        """
        if any(known.released for known in self._known.values()):
            await self._each(self._up(), self.load_newest)

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

    async def _release_on(self, server: Server) -> None:
        for url in await self._workers(server):
            await self._of(url).release(self.version)

    def _newest(self) -> Weights:
        assert self._wanted is not None, "asked before the first update"
        return self._wanted

    def _of(self, url: str) -> WeightedServer:
        return self._known.setdefault(url, WeightedServer(url, self._calls, self._movement))


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
