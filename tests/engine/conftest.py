from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def start_engine() -> Iterator[Callable[..., Any]]:
    """Starts in-process engines on a model, and closes them after the test."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from retrain.engine.transformers_engine import TransformersEngine

    engines = []

    def start(model: Any, **options: Any) -> TransformersEngine:
        sizes = {"max_slots": 4, "max_seq_len": 256, "eviction_grace": 0.0}
        engines.append(TransformersEngine(model, **{**sizes, **options}))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
