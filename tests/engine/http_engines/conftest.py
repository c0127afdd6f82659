from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model

pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'retrain[dev]'")
pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """Folders of the demo's model with random weights of a seed."""
    folders: dict[int, str] = {}

    def make(seed: int) -> str:
        if seed not in folders:
            folder = str(tmp_path_factory.mktemp(f"weights{seed}"))
            if seed == 0:
                make_demo_model(Path(folder))
            else:
                save_other_weights(make(0), folder, seed)
            folders[seed] = folder
        return folders[seed]

    return make


def save_other_weights(source: str, folder: str, seed: int) -> None:
    """Save the model of `source` with noise on every weight."""
    import torch
    from served_model import load_model

    torch.manual_seed(seed)
    model = load_model(source)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    model.save_pretrained(folder)


@pytest.fixture
def serve(weights: Callable[[int], str]) -> Iterator[Callable[..., Any]]:
    """Loads a model and starts an in-process engine over it."""
    import torch
    from served_model import Served, load_model
    from transformers import AutoTokenizer

    from retrain.engine.transformers_engine import TransformersEngine

    torch.set_num_threads(1)
    engines = []

    def start(seed: int = 0) -> Served:
        path = weights(seed)
        model = load_model(path)
        engine = TransformersEngine(model, max_slots=4, max_seq_len=512, eviction_grace=0.0)
        engines.append(engine)
        return Served(path, model, AutoTokenizer.from_pretrained(weights(0)), engine)

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def started() -> Iterator[Callable[..., Any]]:
    """Starts servers, and kills them after the test."""
    servers = []

    def start(kind: Callable[..., Any], *args: Any, **options: Any) -> Any:
        servers.append(kind(*args, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
