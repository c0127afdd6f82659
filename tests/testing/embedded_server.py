"""`retrain serve`'s own loop over a model, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrain.config import ModelConfig
from retrain.engine.server_run import ServeLoop, bind, url_of
from retrain.engine.server_security import Access
from retrain.engine.server_service import ModelService
from retrain.engine.server_weights import WeightFolders
from retrain.engine.transformers_serving import load_served

_SECONDS = 30


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """Serve a folder's model; gives the base URL."""
    config = ModelConfig(name_or_path=str(model), threads=1)
    loaded = load_served(config, context_length=None, most=64, version="default")
    socket = bind("127.0.0.1", 0)
    ready = threading.Event()
    service = ModelService(loaded, WeightFolders([]), seed=0)
    loop = ServeLoop(service, Access("127.0.0.1", None), when_ready=ready.set)
    thread = threading.Thread(target=loop.run, args=([socket],), daemon=True)
    thread.start()
    assert ready.wait(_SECONDS)
    try:
        yield url_of("127.0.0.1", socket)
    finally:
        loop.should_exit = True
        thread.join(_SECONDS)
        socket.close()
        loaded.engine.close()
