"""An MCP server over HTTP of nothing but the standard library, in threads of the test.

It speaks streamable HTTP at every address but `/sse`, which has only server-sent events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Thread
from typing import Any

TOOL = {
    "name": "fetch",
    "description": "Fetch.",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
}


class Handler(BaseHTTPRequestHandler):
    """Answers with JSON, and keeps the headers of what it was asked."""

    seen: list[dict[str, str]]
    elsewhere: str | None
    said: SimpleQueue[str | None]

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/sse":
            self._answer(405, b"")
            return
        self.seen.append(dict(self.headers.items()))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._tell("endpoint", self.elsewhere or "/messages")
        while (answer := self.said.get()) is not None:
            self._tell("message", answer)

    def do_DELETE(self) -> None:
        self._answer(200, b"")

    def do_POST(self) -> None:
        self.seen.append(dict(self.headers.items()))
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.elsewhere is not None:
            self.send_response(307)
            self.send_header("Location", self.elsewhere)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/gone":
            self._answer(405, b"")
        elif self.path == "/messages":
            if "id" in message:
                result = {"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)}
                self.said.put(json.dumps(result))
            self._answer(202, b"Accepted")
        elif "id" not in message:
            self._answer(202, b"")
        else:
            result = {"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)}
            self._answer(200, json.dumps(result).encode())

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] == "initialize":
            return {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "plain", "version": "1"},
            }
        if message["method"] == "tools/list":
            return {"tools": [TOOL]}
        what = message["params"]["arguments"]["what"]
        text = "x" * 2_000_000 if what == "flood" else f"{what}: {self.headers['X-Key']}"
        return {"content": [{"type": "text", "text": text}]}

    def _tell(self, event: str, data: str) -> None:
        self.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(
    port: int = 0, elsewhere: str | None = None
) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Serve; gives the port and the headers of every request."""
    seen: list[dict[str, str]] = []
    said: SimpleQueue[str | None] = SimpleQueue()
    state = {"seen": seen, "elsewhere": elsewhere, "said": said}
    handler = type("OwnHandler", (Handler,), state)
    ThreadingHTTPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_port, seen
    finally:
        said.put(None)
        server.shutdown()
        server.server_close()
