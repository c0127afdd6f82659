"""What both sides of `native_step.py` train: a random model, and rows of one optimizer step."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Qwen2Config, Qwen3Config

from backends.torch.rows import TrainingBatch, TrainingRow

MASKED = 0.2
"""The share of a response that is not trained: replies of an environment."""


@dataclass(frozen=True, slots=True)
class Work:
    """A model and the batch of a step.

    Attributes:
        model: The model's configuration.
        rows: Rows of the step.
        prompt: Tokens of every prompt.
        response: Most tokens of a response; the least is a third of it.
        micro: Rows of TRL's micro-batch; the native one has as many tokens, padding included.
        checkpointing: Recompute activations in the backward pass, on both sides.
    """

    model: Any
    rows: int
    prompt: int
    response: int
    micro: int = 8
    checkpointing: bool = False

    @property
    def budget(self) -> int:
        """Tokens of a native micro-batch."""
        return self.micro * (self.prompt + self.response)

    def batch(self) -> TrainingBatch:
        """Rows of different lengths, the same each time, weighted as one step."""
        rng, words = random.Random(0), self.model.vocab_size
        made = []
        for index in range(self.rows):
            response = rng.randint(self.response // 3, self.response)
            mask = tuple(int(rng.random() >= MASKED) for _ in range(response))
            made.append(
                TrainingRow(
                    tokens=tuple(rng.randrange(words) for _ in range(self.prompt + response)),
                    mask=mask,
                    old=tuple(-9.0 if flag else 0.0 for flag in mask),
                    advantage=rng.uniform(-1, 1),
                    index=index,
                )
            )
        return TrainingBatch(tuple(made)).weighted("token")


def make_model(work: Work) -> Any:
    """The model with random weights, the same each time."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(work.model, dtype=torch.float32)


def _qwen3(hidden: int, words: int, layers: int) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=words,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
    )


def _half_billion() -> Qwen2Config:
    """The shape of Qwen2.5-0.5B."""
    return Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
    )


PRESETS = {
    "tiny": lambda: Work(_qwen3(32, 512, 2), rows=8, prompt=8, response=24, micro=4),
    "small": lambda: Work(_qwen3(128, 8192, 6), rows=16, prompt=40, response=120),
    "0.5b": lambda: Work(_half_billion(), rows=64, prompt=512, response=2048, checkpointing=True),
}
"""Work by name."""
