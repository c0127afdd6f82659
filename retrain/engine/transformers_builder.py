"""Makes the in-process engine for `retrain.engine.factory`."""

from __future__ import annotations

from retrain.engine.factory import EngineContext
from retrain.engine.transformers_engine import TransformersEngine
from retrain.engine.transformers_loading import load_engine


def build_transformers(context: EngineContext) -> TransformersEngine:
    """The in-process engine; it has no options of its own."""
    return load_engine(
        context.model,
        longest=context.max_context_len,
        most=context.concurrency,
        vision=context.vision,
    )
