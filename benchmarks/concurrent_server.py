"""A server for both sides of `concurrency.py`: SGLang's protocol, and chat completions with ids.

Started as a process of its own; reads {"ids", "text"} and prints its port. Nothing is computed.
"""

from __future__ import annotations

import json
import socket
import sys
from functools import cache

import uvicorn
from concurrent_side import allow_connections, completion, prompt_tokens
from scripted_sglang import app
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def chat_route(tokens: int) -> Route:
    """The route that verifiers asks; its answers have `tokens`."""

    @cache
    def answer(messages: int) -> bytes:
        return json.dumps(completion(prompt_tokens(messages, tokens), tokens)).encode()

    async def chat(request: Request) -> Response:
        body = await request.json()
        return Response(answer(len(body["messages"])), media_type="application/json")

    return Route("/v1/chat/completions", chat, methods=["POST"])


def main() -> None:
    """Serve what standard input describes."""
    allow_connections()
    answer = json.loads(sys.stdin.readline())
    listening = socket.create_server(("127.0.0.1", 0), backlog=8192)
    port = listening.getsockname()[1]
    print(port, flush=True)
    served = app(f"http://127.0.0.1:{port}", answer["ids"], answer["text"])
    served.router.routes.append(chat_route(len(answer["ids"])))
    config = uvicorn.Config(served, log_level="critical", lifespan="off", backlog=8192)
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
