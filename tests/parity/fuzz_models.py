"""Models of the fuzz: real vocabularies with real chat templates, over weights of a few megabytes.

The weights are never asked for a token, and the vocabulary is what makes them big.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import real_tokenizers

_POSITIONS = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """A vocabulary under a template.

    Attributes:
        llama: Llama 3's vocabulary; else Qwen's.
        stops: The tokens that end a turn, the one that ends the text first.
        calls: How a tool call is written; "" where the template shows no tools.
    """

    llama: bool
    stops: tuple[str, ...]
    calls: str


KINDS: Mapping[str, Kind] = {
    "qwen2_5": Kind(False, ("<|im_end|>", "<|endoftext|>"), "hermes"),
    "qwen3": Kind(False, ("<|im_end|>", "<|endoftext|>"), "hermes"),
    "qwen3_instruct_2507": Kind(False, ("<|im_end|>", "<|endoftext|>"), "hermes"),
    "glm4moe": Kind(False, ("<|endoftext|>", "<|user|>", "<|observation|>"), ""),
    "llama3": Kind(True, ("<|eot_id|>", "<|end_of_text|>"), ""),
    "llama3_1": Kind(True, ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), "llama3"),
    "llama3_2": Kind(True, ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), "llama3"),
}
"""By the name of trl's template. GLM's turns end in the marker of the role that speaks next."""


def make_model(folder: Path, template: str) -> Path:
    """The folder of a model with that template, made on first use.

    Args:
        folder: Where models and tokenizers are kept.
        template: A key of `KINDS`.
    """
    target = folder / f"model-{template}"
    if (target / "config.json").exists():
        return target
    tokenizer, stops = _tokenizer(folder, template)
    _save(target, tokenizer, stops)
    return target


def _tokenizer(folder: Path, template: str) -> tuple[Any, list[int]]:
    kind = KINDS[template]
    load = real_tokenizers.llama3_tokenizer if kind.llama else real_tokenizers.qwen_tokenizer
    tokenizer = load(folder, template)
    markers = real_tokenizers.markers(tokenizer.chat_template)
    stops = real_tokenizers.with_markers(tokenizer, [*kind.stops, *markers])[: len(kind.stops)]
    tokenizer.eos_token = kind.stops[0]
    return tokenizer, stops


def _save(target: Path, tokenizer: Any, stops: list[int]) -> None:
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=4,
            intermediate_size=4,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=4,
            max_position_embeddings=_POSITIONS,
            tie_word_embeddings=True,
            eos_token_id=stops[0],
            bos_token_id=None,
        )
    )
    model.generation_config = GenerationConfig(eos_token_id=stops)
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
