"""HTTP transports for MCP servers, whose answers are read within bounds.

The SDK beneath sends credentials to the server's own address only: it follows no redirect that
leaves it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from fastmcp.client.transports.http import StreamableHttpTransport
from fastmcp.client.transports.sse import SSETransport

from retrain.environment.mcp.flow import Flooded, Flow

_TIMEOUT = httpx2.Timeout(30.0, read=None)
"""Seconds to connect and to send; how long an answer may take, the call's own limit says."""


def http_transport(
    url: str, headers: Mapping[str, str], flow: Flow, *, sse: bool = False
) -> StreamableHttpTransport | SSETransport:
    """A transport over HTTP.

    Args:
        url: Where the server listens.
        headers: Sent with every request.
        flow: Counts what it says; over SSE the acceptance of a call counts as an answer, since all
            answers come in one body that does not end.
        sse: Whether it speaks over server-sent events, as before streamable HTTP.
    """

    async def meter(response: httpx2.Response) -> None:
        response.stream = _Metered(response.stream, flow)

    def client(**options: Any) -> httpx2.AsyncClient:
        options["headers"] = {**(options.get("headers") or {}), "Accept-Encoding": "identity"}
        options["timeout"] = _TIMEOUT if sse else options.get("timeout", _TIMEOUT)
        return httpx2.AsyncClient(**options, event_hooks={"response": [meter]})

    logging.getLogger("mcp.client.sse").setLevel(logging.CRITICAL)  # it prints what it cannot read
    kind = SSETransport if sse else StreamableHttpTransport
    return kind(url, headers=dict(headers), httpx_client_factory=client)


class _Metered(httpx2.AsyncByteStream):
    """A response's body, counted while it is read; a body that ends is an answer."""

    def __init__(self, stream: Any, flow: Flow) -> None:
        self._stream = stream
        self._flow = flow

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            try:
                self._flow.heard(len(chunk))
            except Flooded as flooded:
                raise httpx2.ReadError(str(flooded)) from flooded
            yield chunk
        self._flow.answered()

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()
