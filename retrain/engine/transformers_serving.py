"""A model loaded to be served: its engine, its tokenizer and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoTokenizer

from retrain.config import ModelConfig
from retrain.engine.transformers_architectures import slots_that_fit
from retrain.engine.transformers_engine import TransformersEngine
from retrain.engine.transformers_loading import KV_BYTES, load_model, quiet_transformers

DEFAULT_CONTEXT = 4096
"""Most tokens of a request where neither the user nor a shorter model says otherwise."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What a server serves.

    Attributes:
        path: The folder or name that it was loaded from.
        model: The transformers model.
        engine: The engine over it.
        tokenizer: Its tokenizer; None where it has none.
        eos_ids: What ends a turn.
        vocabulary: Ids are below it.
        context_length: Most tokens of a request, what is still to be written included.
        max_running_requests: Most requests that run together.
    """

    path: str
    model: Any
    engine: TransformersEngine
    tokenizer: Any
    eos_ids: frozenset[int]
    vocabulary: int
    context_length: int
    max_running_requests: int


def load_served(
    config: ModelConfig, *, context_length: int | None, most: int, version: str
) -> LoadedModel:
    """Load a model and start an engine over it, on the GPU where there is one.

    Args:
        config: The model.
        context_length: Most tokens of a request; None is what the model knows, 4096 at most.
        most: Most requests that run together, where they fit into memory.
        version: What its weights are called.

    Raises:
        ConfigError: The model cannot be loaded, or not even one request fits into memory.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    cuda = torch.cuda.is_available()
    tokenizer = _tokenizer(config)
    with quiet_transformers():
        model = load_model(config)
    model = model.to("cuda") if cuda else model
    text = model.config.get_text_config()
    known = getattr(text, "max_position_embeddings", None) or DEFAULT_CONTEXT
    longest = context_length or min(known, DEFAULT_CONTEXT)
    autocast = torch.bfloat16 if cuda and config.torch_dtype == "auto" else None
    budget = torch.cuda.mem_get_info()[0] // 4 if cuda else KV_BYTES
    slots = min(most, slots_that_fit(model.config, longest, budget, autocast or model.dtype))
    engine = TransformersEngine(
        model,
        max_slots=slots,
        max_seq_len=longest,
        autocast_dtype=autocast,
        weight_version=version,
    )
    return LoadedModel(
        path=config.name_or_path,
        model=model,
        engine=engine,
        tokenizer=tokenizer,
        eos_ids=_eos_ids(model, tokenizer),
        vocabulary=int(text.vocab_size),
        context_length=longest,
        max_running_requests=slots,
    )


def _tokenizer(config: ModelConfig) -> Any:
    """The model's tokenizer; None where its folder has none, as with --skip-tokenizer-init."""
    try:
        return AutoTokenizer.from_pretrained(
            config.tokenizer or config.name_or_path,
            revision=config.revision,
            trust_remote_code=config.trust_remote_code,
        )
    except (OSError, ValueError):
        return None


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """As SGLang collects them: of the generation settings, the model and the tokenizer."""
    found: set[int] = set()
    for source in (model.generation_config, model.config.get_text_config(), tokenizer):
        eos = getattr(source, "eos_token_id", None)
        found |= {eos} if isinstance(eos, int) else set(eos or ())
    return frozenset(found)
