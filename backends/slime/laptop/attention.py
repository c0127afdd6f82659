"""Causal attention over packed sequences, in PyTorch's own operations."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch.nn.functional import scaled_dot_product_attention


def packed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts: torch.Tensor,
    *,
    scale: float,
    dropout: float = 0.0,
) -> torch.Tensor:
    """Attend within each of several sequences that lie behind one another.

    What `TEDotProductAttention` computes with `qkv_format="thd"` and a causal mask, one sequence
    after the other.

    Args:
        query: [tokens, heads, head size].
        key: [tokens, groups, head size]; the heads are divided evenly among the groups.
        value: As key.
        starts: [sequences + 1] where each sequence starts, and the end of the last one.
        scale: Factor on the scores.
        dropout: Probability of dropping an attention weight.

    Returns:
        [tokens, heads * head size].
    """
    parts = [
        _attention(query[start:end], key[start:end], value[start:end], scale, dropout)
        for start, end in pairwise(starts.tolist())
    ]
    return torch.cat(parts).flatten(1)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, dropout: float
) -> torch.Tensor:
    """One sequence: as `packed_attention`, returning [tokens, heads, head size]."""
    out = scaled_dot_product_attention(
        _heads_first(query),
        _heads_first(key),
        _heads_first(value),
        dropout_p=dropout,
        is_causal=True,
        scale=scale,
        enable_gqa=key.shape[1] != query.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)


def _heads_first(tensor: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, head size] as a batch of one, [1, heads, tokens, head size]."""
    return tensor.transpose(0, 1).unsqueeze(0)
