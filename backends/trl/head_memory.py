"""The memory of TRL's head, which computes its logits in tiles."""

from __future__ import annotations

from typing import Any

from backends.local.memory import Workload
from backends.local.outline import ModelOutline

_TILE_TOKENS, _TILE_WORDS = 4096, 32768
"""TRL's head works on tiles of so many tokens and words (`trl/kernels/chunked_logprob.py`)."""

_TORCH_TILES = 7
"""Float32 copies of a tile in that kernel's backward pass where there is no Triton."""


def head_bytes(outline: ModelOutline, work: Workload) -> int:
    """Bytes of the head in its backward pass, where no more than a tile of logits exists.

    A tile of logits, the gradient of the last hidden states, and in float32 the gradient of the
    head's weight, where it is trained.
    """
    config: Any = outline.config
    tokens, words = work.rows * work.row_tokens, int(config.vocab_size)
    w = work.computed.itemsize
    rows = min(tokens, _TILE_TOKENS)
    tile = rows * _TILE_WORDS * w
    if not work.cuda:  # pages that a small vocabulary does not touch take no memory there
        tile = rows * min(words, _TILE_WORDS) * (w + 4 * _TORCH_TILES)
    gradient = 0 if work.adapter else words * config.hidden_size * 4
    return int(tile + gradient + tokens * config.hidden_size * 4)
