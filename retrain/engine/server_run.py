"""The life of a server process: its port, its readiness and its end."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from retrain.engine.server_app import make_app
from retrain.engine.server_security import Access, Guard
from retrain.engine.server_service import ModelService
from retrain.errors import ConfigError

IDLE_CONNECTION_SECONDS = 75
SHUTDOWN_SECONDS = 10
"""How long an answer that is under way may take to be sent once the server stops."""


def bind(host: str, port: int) -> socket.socket:
    """Take a port; nobody is answered yet.

    Args:
        host: An address or a name of this machine.
        port: The port; 0 takes any that is free.

    Raises:
        ConfigError: The port is taken, or the address is not this machine's.
    """
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((name, port))
    except OSError as error:
        taken.close()
        raise _no_port(host, port, error) from error
    return taken


def url_of(host: str, listening: socket.socket) -> str:
    """The URL under which clients on this machine reach a socket."""
    port = listening.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host.strip("[]"), host.strip("[]"))
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class ServeLoop(uvicorn.Server):
    """Serves until it is told to stop; requests in the house are ended and answered first.

    Attributes:
        interrupted: Whether Ctrl-C ended it.
    """

    def __init__(
        self, service: ModelService, access: Access, *, when_ready: Callable[[], None]
    ) -> None:
        """Prepare.

        Args:
            service: What is served.
            access: Who may talk to it.
            when_ready: Called once requests are answered.
        """
        config = uvicorn.Config(
            Guard(make_app(service), access),
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_CONNECTION_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        super().__init__(config)
        self.interrupted = False
        self._service = service
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests in the house, then the connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self._service.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; a second one stops without waiting for anybody."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self.interrupted = self.interrupted or number == signal.SIGINT


def serve(
    service: ModelService,
    access: Access,
    listening: socket.socket,
    *,
    when_ready: Callable[[], None],
) -> None:
    """Serve on a port until told to stop.

    Raises:
        ConfigError: The port was taken meanwhile.
        KeyboardInterrupt: Ctrl-C ended it, in good order.
    """
    loop = ServeLoop(service, access, when_ready=when_ready)
    try:
        loop.run(sockets=[listening])
    except OSError as error:
        host, port = listening.getsockname()[:2]
        raise _no_port(host, port, error) from error
    finally:
        listening.close()
        service.loaded.engine.close()
    if loop.interrupted:
        raise KeyboardInterrupt


def _no_port(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"--port {port}: is in use on {host}; name another, or 0 for a free one")
    return ConfigError(f"--host {host} --port {port}: cannot be listened on ({error.strerror})")
