"""Which server gets the next request: sticky sessions, least load, dead servers left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from retrain.engine.http_client import ServerFault
from retrain.errors import ConfigError, EngineFailure

_GAP = 0.1
"""Seconds after a failed check in which a server is not checked again, even if none is up."""


@dataclass(slots=True, eq=False)
class Server:
    """One server.

    Attributes:
        url: Its base URL.
        up: Whether it passed its check and has not failed since.
        in_flight: Requests that it works on.
        sessions: Episodes whose turns go to it.
        asked_at: When it was last checked or left out, on the monotonic clock.
        refused_at: When it last failed its check.
        fault: What was wrong with it then; None where nothing was.
        check: The check that runs, or ran last.
    """

    url: str
    up: bool = False
    in_flight: int = 0
    sessions: int = 0
    asked_at: float = float("-inf")
    refused_at: float = float("-inf")
    fault: EngineFailure | None = None
    check: asyncio.Task[None] | None = None


Check = Callable[[Server], Awaitable[None]]
"""Raises EngineFailure where a server cannot be used now, and ConfigError where it never can."""


class ServerPool:
    """The servers of one engine."""

    def __init__(self, urls: Sequence[str], check: Check, probe_interval: float) -> None:
        """Begin with every server unchecked.

        Args:
            urls: Their base URLs.
            check: Asks a server whether it is up and serves the right model.
            probe_interval: Seconds for which a server that failed is left out before it is asked
                again, while others are up.
        """
        self.servers = tuple(Server(url) for url in urls)
        self._check = check
        self._interval = probe_interval
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._probes: set[asyncio.Task[None]] = set()

    @property
    def any_up(self) -> bool:
        """Whether a server can be used, as far as is known."""
        return any(server.up for server in self.servers)

    async def start(self) -> None:
        """Check the servers, unless one is known to be up.

        Raises:
            ServerFault: None of them can be used now.
            ConfigError: One of them can never be used as it is.
        """
        if self.any_up:
            return
        async with self._one_at_a_time():
            if not self.any_up:
                now = time.monotonic()
                asked = [s for s in self.servers if now - s.refused_at >= _GAP]
                await asyncio.gather(*(self._probe(server) for server in asked))
        if not self.any_up:
            faults = "; ".join(str(server.fault) for server in self.servers)
            raise ServerFault(f"no server can be used: {faults}", passing=True)

    async def settled(self) -> None:
        """Wait for the checks that run, whatever they find."""
        here = asyncio.get_running_loop()
        checks = (server.check for server in self.servers)
        running = [c for c in checks if c is not None and not c.done() and c.get_loop() is here]
        if running:
            await asyncio.wait(running)

    async def choose(self, kept: Server | None, avoid: Collection[Server] = ()) -> Server:
        """The server for a request.

        Args:
            kept: The session's server so far: its cache holds the session's prefix.
            avoid: Servers that have just failed; used only where nothing else is up.

        Raises:
            ServerFault: No server can be used now.
            ConfigError: No server is up, and one that came back serves another model.
        """
        await self.start()
        self._probe_those_due()
        usable = [server for server in self.servers if server.up]
        fresh = [server for server in usable if server not in avoid] or usable
        if kept in fresh:
            return kept
        return min(fresh, key=lambda server: (server.in_flight, server.sessions))

    def leave_out(self, server: Server, fault: EngineFailure) -> None:
        """Use a server no more until it passes its check again."""
        server.up, server.fault = False, fault
        server.asked_at = time.monotonic()

    def forget(self) -> None:
        """Check all servers again before the next request."""
        for server in self.servers:
            server.up = False

    @contextmanager
    def busy(self, server: Server) -> Iterator[None]:
        """Count a request while it runs."""
        server.in_flight += 1
        try:
            yield
        finally:
            server.in_flight -= 1

    def _one_at_a_time(self) -> asyncio.Lock:
        """The running loop's lock: one cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = loop, asyncio.Lock()
        return self._lock[1]

    def _probe_those_due(self) -> None:
        now = time.monotonic()
        for server in self.servers:
            if not server.up and now - server.asked_at >= self._interval:
                server.asked_at = now
                probe = asyncio.create_task(self._probe_quietly(server))
                self._probes.add(probe)
                probe.add_done_callback(self._probes.discard)

    async def _probe_quietly(self, server: Server) -> None:
        """Probe while others work: a server that serves another model now stays out."""
        try:
            await self._probe(server)
        except ConfigError as error:
            self.leave_out(server, EngineFailure(str(error)))

    async def _probe(self, server: Server) -> None:
        """Check a server; who comes while it is being checked waits for the same check.

        A check may take long: a server that came back loads weights in it.
        """
        running = server.check
        here = asyncio.get_running_loop()
        if running is None or running.done() or running.get_loop() is not here:
            running = server.check = asyncio.create_task(self._check_now(server))
        await asyncio.shield(running)

    async def _check_now(self, server: Server) -> None:
        try:
            await self._check(server)
        except EngineFailure as fault:
            self.leave_out(server, fault)
            server.refused_at = time.monotonic()
        else:
            server.up, server.fault = True, None
