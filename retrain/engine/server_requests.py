"""The requests of a server: which ones run, which ones wait at the gate, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from retrain.engine.server_errors import RequestRefused


@dataclass(slots=True, eq=False)
class Ticket:
    """One request.

    Attributes:
        rid: Its id.
        session: Its session of the engine.
        keyed: Whether the session outlives the request.
        running: Whether it is past the gate.
        aborted: Whether somebody ended it.
    """

    rid: str
    session: str = ""
    keyed: bool = False
    running: bool = False
    aborted: bool = False


class Requests:
    """All requests between arrival and answer; lives in one event loop.

    The gate is shut for a reason, such as a pause, and open while there is none. A request that
    arrives at a shut gate waits; one that is past it is not touched.

    Attributes:
        stopping: Whether no request is taken any more.
    """

    def __init__(self) -> None:
        """Begin with an open gate."""
        self.stopping = False
        self._tickets: dict[str, Ticket] = {}
        self._shut_for: set[str] = set()
        self._changed = asyncio.Condition()

    @property
    def running(self) -> list[Ticket]:
        """Those past the gate."""
        return [ticket for ticket in self._tickets.values() if ticket.running]

    @property
    def waiting(self) -> int:
        """How many wait at the gate."""
        return len(self._tickets) - len(self.running)

    @property
    def open(self) -> bool:
        """Whether requests pass."""
        return not self._shut_for

    @asynccontextmanager
    async def enter(self, rid: str, key: str | None) -> AsyncIterator[Ticket]:
        """Wait until the gate is open or the request is aborted, and count the request meanwhile.

        A request whose key already has a running one gets a session of its own: the engine works
        on one turn of a session at a time, and two turns at once have no common stream anyway.

        Args:
            rid: Its id.
            key: The session that it belongs to; None where it stands alone.

        Raises:
            RequestRefused: The id is in use, or the server is stopping.
        """
        if self.stopping:
            raise RequestRefused("the server is stopping", status=503)
        if rid in self._tickets:
            raise RequestRefused(f"Duplicate request ID detected: {rid}")
        ticket = self._tickets[rid] = Ticket(rid)
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: ticket.aborted or self.open)
            if not ticket.aborted:
                self._admit(ticket, key)
            yield ticket
        finally:
            del self._tickets[rid]
            await asyncio.shield(self._notify())

    def shut(self, reason: str) -> None:
        """Let no request pass until `reopen`."""
        self._shut_for.add(reason)

    async def reopen(self, reason: str) -> None:
        """Take a reason back."""
        self._shut_for.discard(reason)
        await self._notify()

    async def drained(self) -> None:
        """Wait until no request is past the gate."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.running)

    async def emptied(self) -> None:
        """Wait until there is no request at all."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._tickets)

    async def answered(self) -> None:
        """Wait until no aborted request is left."""
        async with self._changed:
            await self._changed.wait_for(lambda: not any(t.aborted for t in self._tickets.values()))

    async def abort(self, rid: str | None) -> list[str]:
        """End one request, or all of them.

        Args:
            rid: Which one; None is all.

        Returns:
            The sessions whose turns the engine has to end.
        """
        chosen = [t for t in self._tickets.values() if rid is None or t.rid == rid]
        for ticket in chosen:
            ticket.aborted = True
        await self._notify()
        return [ticket.session for ticket in chosen if ticket.running]

    def _admit(self, ticket: Ticket, key: str | None) -> None:
        busy = {other.session for other in self.running}
        named = None if key is None else f"key:{key}"
        ticket.keyed = named is not None and named not in busy
        ticket.session = named if named is not None and ticket.keyed else f"rid:{ticket.rid}"
        ticket.running = True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
