"""Whether a model keeps packed rows apart: measured, since models do not say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from backends.torch.compute.passes import PassSettings, score_rows
from backends.torch.rows import TrainingRow
from retrain.errors import ConfigError

_SEEN = 0.03
"""What stood before a row may move its log-probabilities by this part of what its own first token
moves them by. Measured on small random models: below 0.0001 where rows stay apart, in bfloat16 too;
0.13 and more where they do not, and the weights say something."""


def require_rows_apart(model: nn.Module, settings: PassSettings) -> None:
    """Refuse a model that reads one packed row into the next, or counts its positions on.

    Attention of transformers keeps rows apart where their positions begin anew; recurrent and
    convolutional layers (Qwen3.5, LFM2, Mamba), ALiBi (Bloom, MPT) and some others do not. A short
    row is scored behind two different ones, which must make no difference to it. Every process of a
    sharded model calls it.

    Args:
        model: A causal language model of transformers.
        settings: How passes are made.

    Raises:
        ConfigError: Its rows do not stay apart.
    """
    trains = model.training
    model.eval()
    try:
        here = _after(model, settings, before=24, first=1)
        elsewhere = _after(model, settings, before=19, first=1)
        other = _after(model, settings, before=24, first=2)
    finally:
        model.train(trains)
    if _apart(here, elsewhere) > _SEEN * _apart(here, other):
        raise ConfigError(
            f"algorithm.hyperparameters.torch_packing: {type(model).__name__} reads one packed row "
            "into the next; remove the key, so that rows are padded"
        )


def _after(model: Any, settings: PassSettings, *, before: int, first: int) -> list[float]:
    """The log-probabilities of a short row's tokens behind one of `before` tokens."""
    words = model.config.get_text_config().vocab_size
    long = [(before * 7 + place * 5) % words for place in range(before)]
    short = [(first * 11) % words, *(place * 13 % words for place in range(1, 5))]
    rows = [_row(long, 1), _row(short, 4)]
    together = replace(settings, packed=True, micro_batch_tokens=len(long) + len(short))
    return score_rows(model, rows, together)[1]


def _row(tokens: list[int], trained: int) -> TrainingRow:
    return TrainingRow(tuple(tokens), (1,) * trained, (0.0,) * trained)


def _apart(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
