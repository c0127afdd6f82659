"""A real HTTP server on loopback, in a thread of its own, that scores or misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from aiohttp import web

Behaviour = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]


class ScoringServer:
    """Answers POST requests on any path until it is closed.

    Attributes:
        url: Its base URL.
        seen: (path, headers, body) of every request.
        next: How the next requests are answered, in order; then `always` answers.
        always: How the others are answered.
        most_at_once: Most requests that it worked on at once.
        connections: How many connections were opened.
    """

    def __init__(self, always: Behaviour) -> None:
        self.always = always
        self.next: deque[Behaviour] = deque()
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._peers: set[Any] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._wait(self._start())

    @property
    def connections(self) -> int:
        return len(self._peers)

    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.seen]

    def close(self) -> None:
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _wait(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            body = json.loads(await request.text() or "null")
            self.seen.append((request.path, dict(request.headers), body))
            assert request.transport is not None
            self._peers.add(request.transport.get_extra_info("peername"))
            behaviour = self.next.popleft() if self.next else self.always
            return await behaviour(request, body)
        finally:
            self._at_once -= 1


Serve = Callable[[Behaviour], ScoringServer]
"""Starts a server that always answers so."""


@contextmanager
def scoring_servers() -> Iterator[Serve]:
    """Starts servers, and closes them at the end."""
    with ExitStack() as closed:

        def start(always: Behaviour) -> ScoringServer:
            server = ScoringServer(always)
            closed.callback(server.close)
            return server

        yield start


def says(
    text: Any, status: int = 200, *, kind: str = "application/json", **headers: str
) -> Behaviour:
    """Answers a text, or a value as JSON."""

    async def answer(request: web.Request, body: Any) -> web.StreamResponse:
        said = text if isinstance(text, str | bytes) else json.dumps(text)
        raw = said if isinstance(said, bytes) else said.encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=raw, status=status, content_type=kind, headers=named)

    return answer


def scores(function: Callable[[Any], Any], *, seconds: float = 0.0) -> Behaviour:
    """Answers what a function makes of the body, or of each of its items."""

    async def answer(request: web.Request, body: Any) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        if "items" in body:
            return web.json_response({"scores": [function(item) for item in body["items"]]})
        return web.json_response(function(body))

    return answer


def chats(*replies: str, usage: tuple[int, int] | None = (100, 10)) -> Behaviour:
    """Answers chat completions, the last reply for ever."""
    left = deque(replies)

    async def answer(request: web.Request, body: Any) -> web.StreamResponse:
        text = left.popleft() if len(left) > 1 else left[0]
        return web.json_response(completion(text, usage))

    return answer


def completion(text: Any, usage: tuple[int, int] | None = (100, 10)) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    reply: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "stop"}]}
    if usage is not None:
        reply["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return reply


def held(go: threading.Event, then: Behaviour) -> Behaviour:
    """Answers once it may."""

    async def answer(request: web.Request, body: Any) -> web.StreamResponse:
        await asyncio.to_thread(go.wait, 30)
        return await then(request, body)

    return answer


async def hangs(request: web.Request, body: Any) -> web.StreamResponse:
    """Never answers."""
    await asyncio.sleep(60)
    return web.Response()


async def hangs_up(request: web.Request, body: Any) -> web.StreamResponse:
    """Cuts the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def drips(pieces: Iterable[bytes], *, seconds: float, length: int | None = None) -> Behaviour:
    """Answers in pieces with pauses; `length` is what the header claims."""

    async def answer(request: web.Request, body: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = length
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(seconds)
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer
