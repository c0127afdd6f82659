"""Messages on a socket: 4 bytes for the length, then the message."""

from __future__ import annotations

import socket
import struct
import time

_HEAD = struct.Struct(">I")


class Lost(ConnectionError):
    """The other side is gone."""


def write_frame(connection: socket.socket, message: bytes, seconds: float | None = None) -> None:
    """Write one message.

    Args:
        connection: The socket.
        message: At most 4 GiB.
        seconds: How long it may take; None waits for ever.

    Raises:
        Lost: The other side is gone.
        TimeoutError: It does not read in time.
    """
    connection.settimeout(seconds)
    try:
        connection.sendall(_HEAD.pack(len(message)) + message)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Lost(str(error)) from error


def read_frame(connection: socket.socket, seconds: float | None = None) -> bytes:
    """Read one message.

    Args:
        connection: The socket.
        seconds: How long it may take; None waits for ever.

    Raises:
        Lost: The other side is gone.
        TimeoutError: The message is not there in time.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = _HEAD.unpack(_read(connection, _HEAD.size, deadline))
    return _read(connection, length, deadline)


def _read(connection: socket.socket, count: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
        else:
            connection.settimeout(None)
        try:
            part = connection.recv(min(count - len(parts), 1 << 16))
        except ConnectionResetError as error:
            raise Lost(str(error)) from error
        if not part:
            raise Lost("the connection ended")
        parts += part
    return bytes(parts)
