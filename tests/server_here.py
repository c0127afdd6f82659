"""`retrain serve`'s own loop, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.config import ModelConfig
from retrain.engine.server_run import ServeLoop, bind, url_of
from retrain.engine.server_security import Access
from retrain.engine.server_service import ModelService
from retrain.engine.server_weights import WeightFolders
from retrain.engine.transformers_serving import load_served

if TYPE_CHECKING:
    import httpx

_SECONDS = 120


class ServerHere:
    """A served model.

    Attributes:
        url: Its base URL.
        service: What it does; belongs to the server's own event loop.
    """

    def __init__(
        self,
        model: Path,
        *,
        weights_dirs: Sequence[Path] = (),
        token: str | None = None,
        most: int = 64,
        seed: int | None = None,
    ) -> None:
        config = ModelConfig(name_or_path=str(model), threads=1)
        loaded = load_served(config, context_length=None, most=most, version="default")
        self.service = ModelService(loaded, WeightFolders(weights_dirs), seed=seed)
        self._socket = bind("127.0.0.1", 0)
        self.url = url_of("127.0.0.1", self._socket)
        self._ready = threading.Event()
        access = Access("127.0.0.1", token)
        self._loop = ServeLoop(self.service, access, when_ready=self._note_ready)
        run = self._loop.run
        self._thread = threading.Thread(target=run, args=([self._socket],), daemon=True)
        self._thread.start()
        assert self._ready.wait(_SECONDS)

    def _note_ready(self) -> None:
        self._events = asyncio.get_running_loop()
        self._ready.set()

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Send one request on a connection of its own."""
        import httpx

        return httpx.request(
            method, f"{self.url}{path}", json=body, timeout=20, trust_env=False, **options
        )

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.ask("POST", path, {} if body is None else body, **options)

    def inside(self, look: Callable[[], Any]) -> Any:
        """Call a function in the server's event loop."""

        async def call() -> Any:
            return look()

        return self.submit(call()).result(20)

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._events)

    def running(self) -> int:
        return self.inside(lambda: len(self.service.requests.running))

    def stop(self) -> None:
        """Stop as SIGTERM does."""
        self._loop.should_exit = True
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive()
        self._socket.close()
        self.service.loaded.engine.close()


@contextmanager
def serving(model: Path, **options: Any) -> Iterator[str]:
    """Serve a folder's model; gives the base URL."""
    server = ServerHere(model, **options)
    try:
        yield server.url
    finally:
        server.stop()
