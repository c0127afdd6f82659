"""A real HTTP server on loopback, in a thread of its own, that can be made to fail and to die."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Handler = Callable[[Request], Awaitable[Response]]


class LoopbackServer:
    """Serves routes until the test ends.

    Attributes:
        url: Its base URL.
        seen: (path, headers, body) of every request.
        faults: What happens to the next generations, in order: an HTTP status, "hang", "drop" (the
            connection is cut without an answer), a function that changes the JSON of the answer,
            or None for nothing. Checks at start do not count.
        holding: Paths at which requests wait, for as long as they stand here.
    """

    def __init__(self, routes: dict[str, Handler], *, api_key: str | None = None) -> None:
        self.faults: deque[int | str | Callable[[Any], Any] | None] = deque()
        self.holding: set[str] = set()
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self._api_key = api_key
        self._app = Starlette(
            routes=[
                Route(path, self._watched(handler), methods=["GET", "POST"])
                for path, handler in routes.items()
            ]
        )
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen; after `kill`, on the same port again."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self._port))
        self._port = self._socket.getsockname()[1]
        config = uvicorn.Config(self._app, log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        run = self._server.run
        self._thread = threading.Thread(target=run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started:
            threading.Event().wait(0.005)

    def kill(self) -> None:
        """Die: whoever waits loses the connection."""
        for connection in list(self._server.server_state.connections):
            loop = connection.loop
            loop.call_soon_threadsafe(connection.transport.abort)
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()

    def calls(self, path: str) -> list[Any]:
        """The bodies sent to one path, in order."""
        return [body for called, _, body in self.seen if called == path]

    def _watched(self, handler: Handler) -> Handler:
        async def watched(request: Request) -> Response:
            body = await request.json() if await request.body() else None
            self.seen.append((request.url.path, dict(request.headers), body))
            while request.url.path in self.holding:
                await asyncio.sleep(0.005)
            given = request.headers.get("authorization")
            if self._api_key is not None and given != f"Bearer {self._api_key}":
                return JSONResponse({"error": f"wrong key {given}"}, status_code=401)
            return await handler(request)

        return watched

    async def answer(self, request: Request, work: Awaitable[Any], *, check: bool) -> Response:
        """Answer a generation with `work`, or with the next fault."""
        fault = self.faults.popleft() if self.faults and not check else None
        if isinstance(fault, int):
            asyncio.ensure_future(work).cancel()
            return JSONResponse({"error": {"message": "broken"}}, status_code=fault)
        if fault == "hang":
            asyncio.ensure_future(work).cancel()
            await asyncio.sleep(30)
        if fault == "drop":
            asyncio.ensure_future(work).cancel()
            self._cut(request)
            return Response()
        reply = await work
        return JSONResponse(fault(reply) if callable(fault) else reply)

    def _cut(self, request: Request) -> None:
        for connection in list(self._server.server_state.connections):
            if connection.client == tuple(request.client or ()):
                connection.transport.abort()


async def until_disconnected(request: Request, work: Awaitable[Any]) -> Any:
    """Wait for `work`; a client that leaves cancels it, as SGLang and vLLM do."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait({task}, timeout=0.02)
        if not task.done() and await request.is_disconnected():
            task.cancel()
            break
    return await task
