"""A small model with random weights, to train an environment on a CPU in minutes.

It knows nothing, so it first has to imitate (`algorithm.name: sft`): how a turn ends, how a tool is
called. What pays among the things that it imitates, reinforcement learning finds out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrain.errors import MissingDependency

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

TEMPLATE = Path(__file__).parent / "small_model.jinja"
"""ChatML with Hermes tool calls, as Qwen2.5's, with a shorter preamble."""

CONTEXT = 512
"""Tokens that the model is made for."""

MAX_VOCABULARY = 450
"""An upper bound: little text runs out of pairs to merge before."""

INITIALIZER_RANGE = 0.05
"""Standard deviation of the weights. Qwen's 0.02 is meant for far wider layers: at width 128, 300
steps of imitation then do not reliably teach the model to copy numbers."""

_PIECES = r"(?:system|user|assistant)\n|[0-9]|(?<!<)[-+*/]"
"""A role line, a digit and an operator each stand alone; what lies between is merged freely, so
that the opening of a tool call becomes one token."""


def make_small_model(folder: str | Path, text: Iterable[str], *, seed: int = 0) -> str:
    """Write a Qwen3 of 2 layers of width 128, its tokenizer and its chat template.

    Args:
        folder: Where to; loads as any Hugging Face model.
        text: What the tokenizer is trained on: some hundred turns as they will be said. All 256
            bytes are in its vocabulary, so that any other text can be encoded too.
        seed: Seed of the random weights.

    Returns:
        What was made, in a line.

    Raises:
        MissingDependency: torch or transformers is not installed.
    """
    try:
        from transformers.utils import logging

        tokenizer = _make_tokenizer(text)
        model = _make_network(tokenizer, seed)
    except ImportError as error:
        raise MissingDependency(
            f"a small model needs {error.name}: pip install 'retrain[engine]'"
        ) from error
    quiet: Any = logging
    quiet.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return (
        f"{folder}: {model.num_parameters():,} parameters, "
        f"{len(tokenizer)} tokens in the vocabulary"
    )


def _make_tokenizer(text: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MAX_VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    wrapper: Any = transformers.PreTrainedTokenizerFast
    return cast(
        "PreTrainedTokenizerFast",
        wrapper(
            tokenizer_object=tokenizer,
            pad_token=PAD,
            eos_token=END,
            additional_special_tokens=[START],
            clean_up_tokenization_spaces=False,
            model_max_length=CONTEXT,
            chat_template=TEMPLATE.read_text(encoding="utf-8"),
        ),
    )


def _make_network(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Make the network: 0.4 million parameters, most of them in its 2 layers."""
    import torch
    import transformers

    generation_config: Any = transformers.GenerationConfig
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype=torch.float32,
        initializer_range=INITIALIZER_RANGE,
    )
    model = transformers.Qwen3ForCausalLM(config)
    model.generation_config = generation_config(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model
