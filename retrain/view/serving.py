"""The life of the viewer's server: its port, its page's address and its end."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from retrain.errors import ConfigError
from retrain.view.app import make_app
from retrain.view.following import Following
from retrain.view.runs import RunPlace
from retrain.view.shown_runs import ShownRuns

HOST = "127.0.0.1"
"""The viewer shows prompts, answers and paths: it listens on this machine only."""
_SHUTDOWN_SECONDS = 3


class ViewServer(uvicorn.Server):
    """Serves until it is told to stop; pages that follow the run are told goodbye first."""

    def __init__(self, runs: ShownRuns, title: str, when_ready: Callable[[], None]):
        """Prepare.

        Args:
            runs: What is shown.
            title: What the page calls it.
            when_ready: Called once requests are answered.
        """
        config = uvicorn.Config(
            make_app(runs, title=title),
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        super().__init__(config)
        self._runs = runs
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, then the connections."""
        self._runs.stop()
        await super().shutdown(sockets)


def bind(port: int) -> socket.socket:
    """Take a port of this machine's loopback address.

    Args:
        port: The port; 0 takes any that is free.

    Raises:
        ConfigError: It is taken, or may not be listened on.
    """
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HOST, port))
    except OSError as error:
        taken.close()
        if error.errno == errno.EADDRINUSE:
            remedy = "is in use; name another, or 0 for a free one"
        else:
            remedy = f"cannot be listened on ({error.strerror})"
        raise ConfigError(f"--port {port}: {remedy}") from error
    return taken


def serve(
    places: Sequence[RunPlace],
    title: str,
    listening: socket.socket,
    *,
    find: Callable[[], Sequence[RunPlace]],
    when_ready: Callable[[str], None],
    images: Sequence[Path] = (),
) -> None:
    """Show runs until told to stop.

    Args:
        places: The runs; the last one is read at once.
        title: What the page calls them together.
        listening: The port that was taken.
        find: Finds the runs that there are later: stages begin one after the other.
        when_ready: Called with the page's URL once it is there.
        images: Folders beside the runs' whose pictures may be shown.

    Raises:
        KeyboardInterrupt: Ctrl-C ended it, in good order.
    """
    url = f"http://{HOST}:{listening.getsockname()[1]}/"
    runs = [Following(place) for place in places]
    runs[-1].start()
    server = ViewServer(ShownRuns(runs, find, images), title, lambda: when_ready(url))
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
