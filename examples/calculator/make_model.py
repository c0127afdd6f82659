"""Make the demo's model: a tiny Qwen3 with random weights, its tokenizer and its chat template.

python examples/calculator/make_model.py --output DIR
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from tasks import draw_tasks
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

HERE = Path(__file__).parent
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

MAX_VOCABULARY = 450
"""An upper bound: the text runs out of pairs to merge before."""

INITIALIZER_RANGE = 0.05
"""Standard deviation of the weights. Qwen's 0.02 is meant for far wider layers: at width 128, 300
steps of imitation then do not reliably teach the model to copy numbers."""

PIECES = Regex(r"(?:system|user|assistant)\n|[0-9]|(?<!<)[-+*/]")
"""A role line, a digit and an operator each stand alone; what lies between is merged freely, so
that the opening of a tool call becomes one token."""


def demo_text() -> Iterator[str]:
    """Everything that the tokenizer is trained on: the demo's own turns."""
    for task in draw_tasks(200, seed=0):
        call = f'{{"name": "calculator", "arguments": {{"expression": "{task.expression}"}}}}'
        yield "system\nTools: calculator"
        yield f"user\n{task.prompt}"
        yield f"assistant\n<tool_call>\n{call}\n</tool_call>"
        yield f"user\n<tool_response>\n{task.left}\n</tool_response>"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on the demo's text. All 256 bytes are in it, so any text encodes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(PIECES, behavior="isolated"),
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
    tokenizer.train_from_iterator(demo_text(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
        model_max_length=512,
        chat_template=(HERE / "chat_template.jinja").read_text(encoding="utf-8"),
    )


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Make the network with random weights: 0.44 million parameters.

    Args:
        tokenizer: Gives the vocabulary's size and the ids of its special tokens.
        seed: Seed of the weights.
    """
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype=torch.float32,
        initializer_range=INITIALIZER_RANGE,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model


def main() -> None:
    """Read the command line and write the model's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "generated" / "model")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights")
    arguments = parser.parse_args()
    disable_progress_bar()
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, arguments.seed)
    model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)
    print(
        f"{arguments.output}: {model.num_parameters():,} parameters, "
        f"{len(tokenizer)} tokens in the vocabulary"
    )


if __name__ == "__main__":
    main()
