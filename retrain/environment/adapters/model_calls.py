"""A chat endpoint of one episode: other people's loops ask it for the model's turns.

A program that plays episodes itself calls `POST …/chat/completions`, as it would call any server of
OpenAI's protocol. Each call waits here until the episode loop has sampled the turn.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrain.connections import load_aiohttp

TOKEN_HEADER = "X-Retrain-Token"
_LARGEST = 64 * 1024 * 1024
"""Most bytes of a request."""
_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
"""The tokens are counted by the episode loop; who asks here is not told."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request for a turn.

    Attributes:
        messages: The whole conversation, as chat dictionaries.
        tools: The tools that the model may call, as they were sent.
        answer: Takes the assistant message and the reason for its end.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    answer: asyncio.Future[tuple[Mapping[str, Any], str]]


class ModelCalls:
    """The endpoint; it listens on the loopback, and wants a token that nobody else knows.

    Attributes:
        token: To be sent as `X-Retrain-Token`.
        url: Its address, once it is open, without a path.
    """

    def __init__(self) -> None:
        self._aiohttp = load_aiohttp("endpoints for other loops")
        self._arrived: asyncio.Queue[ModelCall] = asyncio.Queue()
        self._asked: list[ModelCall] = []
        self._runner: Any = None
        self.token = secrets.token_urlsafe(16)
        self.url = ""

    async def open(self) -> None:
        """Listen on a free port."""
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/{path:.*}chat/completions", self._serve)
        self._runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"

    async def next(self) -> ModelCall:
        """The next call that waits for a turn."""
        return await self._arrived.get()

    async def close(self) -> None:
        """Stop listening; calls that wait are broken off."""
        for call in self._asked:
            call.answer.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: Any) -> Any:
        from aiohttp import web

        if request.headers.get(TOKEN_HEADER) != self.token:
            return web.json_response({"error": {"message": "no such token"}}, status=401)
        body = await request.json()
        future: asyncio.Future[tuple[Mapping[str, Any], str]] = asyncio.Future()
        call = ModelCall(body["messages"], body.get("tools") or (), future)
        self._asked.append(call)
        self._arrived.put_nowait(call)
        message, finish = await future
        about = {"id": "retrain", "created": 0, "model": body.get("model", "policy")}
        if not body.get("stream"):
            return web.json_response(_whole(about, message, finish))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in _events(about, message, finish):
            await response.write(f"data: {event}\n\n".encode())
        await response.write_eof()
        return response


def _whole(about: Mapping[str, Any], message: Mapping[str, Any], finish: str) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**about, "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _events(about: Mapping[str, Any], message: Mapping[str, Any], finish: str) -> list[str]:
    """The message in one piece, its end, the usage, and the end of the stream."""
    calls = [{"index": n, **call} for n, call in enumerate(message.get("tool_calls") or ())]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    chunk = {**about, "object": "chat.completion.chunk"}
    said = {"index": 0, "delta": delta, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": finish}
    chunks = [
        {**chunk, "choices": [said]},
        {**chunk, "choices": [ended]},
        {**chunk, "choices": [], "usage": _USAGE},
    ]
    return [*map(json.dumps, chunks), "[DONE]"]
