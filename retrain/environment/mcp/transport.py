"""`LeashedTransport`: speaks with a server that runs on a leash, over its standard streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from fastmcp.client.transports.base import ClientTransport, TransportOptions
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from retrain.environment.mcp.flow import Flooded, Flow
from retrain.environment.mcp.process import ServerProcess


class LeashedTransport(ClientTransport):
    """A transport of fastmcp whose process is ours, so that its end and its floods are known.

    Args:
        start: Starts the server.
        flow: Counts what it says.

    Attributes:
        process: The server; None before it was started.
    """

    def __init__(self, start: Callable[[], Awaitable[ServerProcess]], flow: Flow) -> None:
        self._start = start
        self._flow = flow
        self.process: ServerProcess | None = None

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[Any]:
        """Start the server and yield a session with it; at the end, end the server."""
        options = transport_options or TransportOptions()
        process = self.process = await self._start()
        try:
            heard_in, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            said, said_out = anyio.create_memory_object_stream[SessionMessage](0)
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(self._hear, process, heard_in)
                pumps.start_soon(self._say, process, said_out, heard_in)
                try:
                    async with options.session_class(heard, said, **session_kwargs) as session:
                        yield session
                finally:
                    pumps.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await process.end()

    async def _hear(self, process: ServerProcess, heard: Any) -> None:
        """Hand messages over; what is no message is left out, and counts."""
        async with heard:
            async for line in process.lines():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    message = None
                try:
                    self._count(message)
                except Flooded as flooded:
                    process.kill(str(flooded))
                    return
                if message is not None:
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await heard.send(SessionMessage(message))

    def _count(self, message: Any) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._flow.answered()
        else:
            self._flow.message()

    async def _say(self, process: ServerProcess, said: Any, heard: Any) -> None:
        async with said:
            try:
                async for item in said:
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.send(line.encode())
            except ConnectionError:
                await process.note_end()
                await heard.aclose()
