"""The names of engines, and engines made from the configuration or the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrain.config import ModelConfig
from retrain.engine.base import InferenceEngine
from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.signatures import check_config
from retrain.vision.base import VisionProcessor

ENGINES: Registry[Callable[..., InferenceEngine]] = Registry("engine", "retrain.engines")
"""Name -> a callable `(context: EngineContext, **options) -> InferenceEngine`."""

_HTTP = "pip install 'retrain[http]'"
ENGINES.add_lazy(
    "transformers",
    "retrain.engine.transformers_builder:build_transformers",
    "pip install 'retrain[engine]'",
)
ENGINES.add_lazy("sglang", "retrain.engine.http_builders:build_sglang", _HTTP)
ENGINES.add_lazy("openai", "retrain.engine.http_builders:build_openai", _HTTP)
ENGINES.add_lazy("vllm", "retrain.engine.http_builders:build_vllm", _HTTP)


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What every engine may need to know of the run.

    Attributes:
        model: The `model:` section.
        max_context_len: Most tokens of an episode, the prompt included; None where not known.
        concurrency: Most episodes in play at the same time.
        vocab_size: Ids that the model knows are below it; None where not known.
        encode: The tokenizer, without special tokens added; None checks no server's vocabulary.
        vision: The model's image processor; None where it reads no images.
    """

    model: ModelConfig
    max_context_len: int | None
    concurrency: int
    vocab_size: int | None = None
    encode: Callable[[str], Sequence[int]] | None = None
    vision: VisionProcessor | None = None


def make_engine(
    spec: str | Mapping[str, Any], context: EngineContext, *, key: str = "engine"
) -> InferenceEngine:
    """Make the engine that a configuration or a command line names.

    Args:
        spec: A name, an import path `package.module:function` or an entry point of the group
            `retrain.engines`; or a mapping of `name` to one of these and its options beside it,
            such as {"name": "sglang", "urls": ["http://127.0.0.1:30000"]}.
        context: What the engine may need to know of the run.
        key: Where `spec` stands in the configuration, for messages.

    Returns:
        The engine. Those of retrain have `close()`; those over HTTP also `start()`.

    Raises:
        ConfigError: There is no such engine, or an option is unknown, missing or wrong.
        MissingDependency: It needs a package that is not installed.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"{key}.name: missing; known: {', '.join(ENGINES.names())}")
    builder = ENGINES.get(name)
    if not callable(builder):
        raise ConfigError(f"{key}.name: {name!r} is neither a function nor a class")
    engine: object = builder(context, **check_config(builder, options, key, skip=("context",)))
    if not isinstance(engine, InferenceEngine):
        raise ConfigError(f"{key}.name: {name!r} makes a {type(engine).__name__}, not an engine")
    return engine
