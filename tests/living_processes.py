"""Whether processes run, for tests that none is left."""

from __future__ import annotations

import asyncio
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs (one that has ended and waits for its parent does not)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


async def ended(*pids: int, seconds: float = 10.0) -> bool:
    """Wait until none of the processes runs any more."""
    async with asyncio.timeout(seconds):
        while any(map(alive, pids)):
            await asyncio.sleep(0.02)
    return True
