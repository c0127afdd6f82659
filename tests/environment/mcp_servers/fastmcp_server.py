"""A real FastMCP server, for each transport.

`python fastmcp_server.py` speaks over standard streams; `python fastmcp_server.py PORT` over HTTP,
and `python fastmcp_server.py PORT sse` over server-sent events.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError


@dataclass
class Point:
    x: int
    y: int = 0


def make_server() -> FastMCP:
    """A server with a state of its own."""
    server = FastMCP("points")
    kept: list[str] = []

    @server.tool
    def shift(points: list[Point], by: int | None = None) -> list[int]:
        """Shift points along x."""
        return [point.x + (by or 1) for point in points]

    @server.tool
    def keep(word: str) -> str:
        """Keep a word, and tell how many there are."""
        kept.append(word)
        return f"{len(kept)} words"

    @server.tool
    def refuse(why: str) -> str:
        """Refuse."""
        raise ToolError(f"no: {why}")

    crowd_now = crowd_most = 0

    @server.tool
    async def crowd() -> str:
        """Count who is here."""
        nonlocal crowd_now, crowd_most
        crowd_now += 1
        crowd_most = max(crowd_most, crowd_now)
        await asyncio.sleep(0.2)
        crowd_now -= 1
        return str(crowd_most)

    return server


mcp = make_server()

if __name__ == "__main__":
    if len(sys.argv) > 1:
        options = {"log_level": "critical", "host": "127.0.0.1", "port": int(sys.argv[1])}
        mcp.run("sse" if sys.argv[2:] else "http", show_banner=False, **options)
    else:
        mcp.run(show_banner=False)
