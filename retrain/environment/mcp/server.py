"""`Server`: one configured MCP server, over all its connections."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from functools import partial

from retrain.environment.mcp.config import ServerConfig
from retrain.environment.mcp.connection import Connection
from retrain.environment.mcp.offer import OfferedTool, differences, offer_tools
from retrain.environment.mcp.opening import open_transport
from retrain.errors import ConfigError, ToolFailure, boundary

_STARTS = 8
"""Connections to one server that are opened at once; further ones wait."""


class Server:
    """One server on one event loop.

    The tools are those that it offers when it is first connected: prompts show them for the whole
    run. A server that cannot be connected then is a mistake in the configuration; later on it is a
    failure of the episode.

    Args:
        name: Its name.
        config: What the configuration says of it.
        isolated: Whether every episode has a connection of its own.
        max_restarts: How often in a row a shared connection is made anew before an answer.
        strict: Whether tools that change during the run fail episodes; else they are warned of.

    Attributes:
        offer: Its tools; None before the first connection.
    """

    def __init__(
        self, name: str, config: ServerConfig, *, isolated: bool, max_restarts: int, strict: bool
    ) -> None:
        self.name = name
        self.config = config
        self.offer: Sequence[OfferedTool] | None = None
        self._isolated = isolated
        self._max_restarts = max_restarts
        self._strict = strict
        self._shared: Connection | None = None
        self._restarts = 0
        self._one_by_one = asyncio.Lock()
        self._starts = asyncio.Semaphore(_STARTS)

    async def connect(self) -> Connection:
        """A connection for an episode: the shared one, or one of its own.

        Raises:
            ConfigError: The server cannot be used, and never could.
            ToolFailure: It cannot be used any more.
        """
        if self._isolated:
            async with self._starts:
                return await self._open()
        async with self._one_by_one:
            if self._shared is not None:
                await self._shared.certain()
            if self._shared is None or self._shared.lost is not None:
                self._shared = await self._renew(self._shared)
            elif self._shared.stale:
                limit = self.config.start_timeout
                async with boundary(ToolFailure, f"MCP server {self.name!r}", timeout=limit):
                    self._compare(await self._shared.tools(), self._shared)
            return self._shared

    async def leave(self, connection: Connection) -> None:
        """End an episode's use of a connection, and what is left of one that was lost."""
        if self._isolated or connection.lost is not None:
            await connection.close()

    def answered(self) -> None:
        """Say that the server has answered a call: it works."""
        self._restarts = 0

    async def _renew(self, lost: Connection | None) -> Connection:
        if lost is not None:
            await lost.close()
        if self.offer is not None:
            if self._restarts >= self._max_restarts:
                raise ToolFailure(
                    f"MCP server {self.name!r} was started {self._restarts} times without an "
                    f"answer, and is not started again (max_restarts); the last time: "
                    f"{'' if lost is None else lost.lost}"
                )
            self._restarts += 1
        return await self._open()

    async def _open(self) -> Connection:
        key = f"environment.env_specific_config.servers.{self.name}"
        opening = open_transport(self.name, self.config, isolated=self._isolated)
        connection = Connection(self.name, opening, self.config.max_calls)
        limit = self.config.start_timeout
        try:
            async with asyncio.timeout(limit):
                await connection.open()
                listed = await connection.tools()
            self._compare(listed, connection)
        except TimeoutError:
            await connection.close()
            text = f"{key}: it did not say what tools it has within {limit:g} s (start_timeout)"
            raise self._unusable(text) from None
        except ToolFailure as failure:
            await connection.close()
            raise self._unusable(f"{key}: {failure}{self._hint()}") from failure
        except BaseException:
            await connection.close()
            raise
        return connection

    def _hint(self) -> str:
        """What may be wrong with an address that does not answer when it is first asked."""
        if self.config.url is None or self.config.transport is not None or self.offer is not None:
            return ""
        return "; if it speaks over SSE alone, set transport: sse"

    def _unusable(self, text: str) -> ConfigError | ToolFailure:
        return ConfigError(text) if self.offer is None else ToolFailure(text)

    def _compare(self, listed: Sequence[object], connection: Connection) -> None:
        """Keep the first list of tools; see whether a later one is the same.

        Raises:
            ToolFailure: A tool that the prompts show is gone, or is another one.
        """
        offered = partial(offer_tools, self.name, self.config, listed, connection.blot)
        if self.offer is None:
            self.offer = offered()
            return
        try:
            changed = differences(self.offer, offered())
        except ConfigError as error:
            changed = str(error)
        if not changed:
            return
        text = f"MCP server {self.name!r} {changed}, other than when the run started"
        if self._strict:
            raise ToolFailure(text)
        warnings.warn(f"{text}; prompts show the tools as they were", stacklevel=2)
