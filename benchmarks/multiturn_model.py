"""A small tokenizer, a random Qwen3 and the rule that says which token it samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from retrain.engine.transformers_cache import StepLayout
from retrain.engine.transformers_forward import SlotForward

END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
WORDS = 64
FORCED = 1e4

Rule = Callable[[Tensor, Tensor, Tensor], None]
"""Changes the logits [B, V] of the tokens that follow, given ids and positions [B, N]."""


def word(number: int) -> str:
    """One token of the tokenizer."""
    return f"w{number % WORDS:02}"


def make_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE of some 500 tokens, among them the words and the control tokens of Qwen3."""
    pieces = Regex(r"w\d\d|[0-9]|system\n|user\n|assistant\n")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pieces, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [word(number) * 8 for number in range(WORDS)]
    texts += [call(word(number)).strip("<>/") for number in range(WORDS)] * 2
    texts += [f"system\nuser\nassistant\n{template}"]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, chat_template=template
    )


def qwen3_template() -> str:
    """Qwen3's chat template as TRL ships it: TRL reads tool calls of templates that it knows."""
    from trl import chat_template_utils

    folder = Path(chat_template_utils.__file__).parent / "chat_templates"
    return (folder / "qwen3.jinja").read_text(encoding="utf-8")


def call(text: str) -> str:
    """A turn that calls the tool."""
    arguments = f'{{"name": "write", "arguments": {{"text": "{text}"}}}}'
    return f"<tool_call>\n{arguments}\n</tool_call>"


def make_model(hidden: int, layers: int, tokenizer: Any, positions: int) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights; its MLP is three times as wide as the rest."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


@contextmanager
def forced(table: Tensor) -> Iterator[None]:
    """Let every Qwen3 write what the table says, whoever generates with it.

    Args:
        table: [positions, vocabulary] the token that follows a token at a position.
    """
    end = len(table) - 1

    def rule(ids_BN: Tensor, positions_BN: Tensor, logits_BV: Tensor) -> None:
        following_B = table[positions_BN[:, -1].clamp(max=end), ids_BN[:, -1]]
        logits_BV.scatter_(1, following_B[:, None], FORCED)

    with _ruled(rule):
        yield


@contextmanager
def unending(stop: int) -> Iterator[None]:
    """Let no Qwen3 sample the stop token, so that every turn has the longest length."""

    def rule(ids_BN: Tensor, positions_BN: Tensor, logits_BV: Tensor) -> None:
        logits_BV[:, stop] = -FORCED

    with _ruled(rule):
        yield


@contextmanager
def _ruled(rule: Rule) -> Iterator[None]:
    """Apply a rule to what generates: TRL's forwards that have a KV cache, and the engine's."""
    plain, slots = Qwen3ForCausalLM.forward, SlotForward._logits

    @wraps(plain)
    def forward(model: Any, *args: Any, **given: Any) -> Any:
        output = plain(model, *args, **given)
        if isinstance(given.get("past_key_values"), DynamicCache):
            rule(given["input_ids"], given["position_ids"], output.logits[:, -1])
        return output

    def on_slots(engine: Any, layout: StepLayout, masks: Any) -> Tensor:
        logits_BV = slots(engine, layout, masks)
        rule(layout.ids_BN, layout.positions_BN, logits_BV)
        return logits_BV

    Qwen3ForCausalLM.forward, SlotForward._logits = forward, on_slots
    try:
        yield
    finally:
        Qwen3ForCausalLM.forward, SlotForward._logits = plain, slots
