"""Messages on a byte stream: 8 bytes for its number, 4 for its length, then the message."""

from __future__ import annotations

import asyncio
import struct

_HEAD = struct.Struct(">QI")
MOST_BYTES = 2**32 - 1
"""The longest message."""


def frame(number: int, message: bytes) -> bytes:
    """A message as it is written.

    Raises:
        ValueError: It is longer than 4 GiB.
    """
    if len(message) > MOST_BYTES:
        raise ValueError(f"a message of {len(message):,} bytes; at most {MOST_BYTES:,} can be sent")
    return _HEAD.pack(number, len(message)) + message


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes] | None:
    """Read one message.

    Returns:
        Its number and the message; None where the other side is gone.
    """
    try:
        number, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return number, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
