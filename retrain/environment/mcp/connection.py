"""`Connection`: a session with one MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastmcp.client.client import Client
from mcp import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolResult,
    TextContent,
    ToolListChangedNotification,
)

from retrain.environment.mcp.opening import Opening
from retrain.environment.mcp.process import ServerProcess
from retrain.environment.mcp.transport import LeashedTransport
from retrain.errors import ToolFailure, boundary

_READABLE = (INVALID_PARAMS, METHOD_NOT_FOUND)
"""Errors of the protocol that are about the call; all others are about the connection."""

_LONGEST = 500
"""Characters of a failure's text."""


class Connection:
    """A session with one server. Its methods run on the event loop that opened it.

    Args:
        name: The server's name.
        opening: The transport, and what belongs to it.
        max_calls: Most calls at once; others wait.

    Attributes:
        lost: Why it is no more; None while it lives.
        stale: Whether the server has said that its tools have changed.
    """

    def __init__(self, name: str, opening: Opening, max_calls: int) -> None:
        self.name = name
        self.lost: str | None = None
        self.stale = False
        self._blot = opening.blot
        self._flow = opening.flow
        self._transport = opening.transport
        self._room = asyncio.Semaphore(max_calls)
        self._doubt: asyncio.Task[None] | None = None
        self._client = Client(
            opening.transport,
            mode="legacy",
            init_timeout=0,
            log_handler=_leave,
            message_handler=self._notice,
        )

    async def open(self) -> None:
        """Connect.

        Raises:
            ToolFailure: The server ended, or answers something else.
        """
        try:
            async with self._crossing("start"):
                await self._client.__aenter__()
        except BaseException:
            await self.close()
            raise

    async def tools(self) -> list[Any]:
        """The tools that the server offers now.

        Raises:
            ToolFailure: It does not say.
        """
        self.stale = False
        async with self._crossing("tools/list"):
            return list(await self._client.list_tools())

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        """Call a tool.

        Args:
            tool: The server's own name of it.
            arguments: By name.
            timeout: Seconds until the call counts as hung, without the wait for room; None waits
                for ever.

        Returns:
            The protocol's result; an error result where the server refuses what the call asks.

        Raises:
            ToolFailure: The connection is lost, or the server hung.
        """
        try:
            async with self._room:
                if self.lost is not None:
                    raise ToolFailure(f"tool {tool}: {self.lost}")
                async with self._crossing(f"tool {tool}", timeout):
                    return await self._call(tool, arguments)
        except ToolFailure as failure:
            if isinstance(failure.__cause__, TimeoutError):
                self._doubt = self._doubt or asyncio.create_task(self._ask_whether_alive(timeout))
            raise

    async def certain(self) -> None:
        """Wait until it is known whether a server that hung in a call still answers."""
        if self._doubt is not None:
            await asyncio.shield(self._doubt)

    async def close(self) -> None:
        """End the session, and the server where it is ours."""
        self.lost = self.lost or f"MCP server {self.name!r} was closed"
        if self._doubt is not None:
            self._doubt.cancel()
        with suppress(ToolFailure):
            async with boundary(ToolFailure, "close"):
                await self._client.close()

    def blot(self, text: str) -> str:
        """A text without the server's credentials."""
        return self._blot(text)

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return await self._client.call_tool_mcp(tool, dict(arguments))
        except MCPError as error:
            if error.code in _READABLE:
                content = [TextContent(type="text", text=str(error))]
                return CallToolResult(content=content, is_error=True)
            raise

    @asynccontextmanager
    async def _crossing(self, operation: str, timeout: float | None = None) -> AsyncIterator[None]:
        what = f"MCP server {self.name!r}: {operation}"
        try:
            async with boundary(ToolFailure, what, timeout=timeout):
                yield
        except ToolFailure as failure:
            raise self._explain(failure) from failure.__cause__

    def _explain(self, failure: ToolFailure) -> ToolFailure:
        """The failure in words of the server's process, without credentials."""
        process, text = self._process, " ".join(str(failure).split())[:_LONGEST]
        why = self._flow.why or (None if process is None else process.why)
        if why is not None:
            text = f"MCP server {self.name!r}: {why}"
        if why is not None and process is not None and process.last_words:
            text += f"; its last words: {process.last_words}"
        text = self._blot(text)
        if not isinstance(failure.__cause__, TimeoutError):
            self.lost = self.lost or text
        return ToolFailure(text)

    async def _ask_whether_alive(self, timeout: float | None) -> None:
        """After a call that hung: a server that does not answer anything else either is lost."""
        try:
            async with boundary(ToolFailure, "ping", timeout=timeout):
                await self._client.ping()
        except ToolFailure:
            self.lost = self.lost or f"MCP server {self.name!r}: it does not answer any more"
            if self._process is not None:
                self._process.kill("it was ended, since it did not answer any more")
        finally:
            self._doubt = None

    @property
    def _process(self) -> ServerProcess | None:
        transport = self._transport
        return transport.process if isinstance(transport, LeashedTransport) else None

    async def _notice(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.stale = True


async def _leave(message: Any) -> None:
    """Leave what a server logs unprinted: it may hold anything."""
