"""Sampling: one seeded uniform per token, and the inverse of the cumulative distribution.

Axis symbols: B rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from retrain.engine.base import SamplingParams

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def uniform(seed: int, position: int) -> float:
    """The number that decides a token: it depends on the turn's seed and the position alone.

    Splitmix64 (Steele, Lea and Flood, 2014) at step `position` of the stream that `seed` starts.

    Args:
        seed: The turn's seed.
        position: Which token of the turn, 0 the first.

    Returns:
        A float in [0, 1) with 53 random bits.
    """
    state = (_mix(seed & _MASK) + _GOLDEN * (position + 1)) & _MASK
    return float(_mix(state) >> 11) / 2**53


def sample(
    logits_BV: Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Draw one token for every row.

    A row's token is the first one whose cumulative probability, in order of the vocabulary,
    exceeds its uniform. Temperature comes first, then top-k, then top-p over what top-k left.

    Args:
        logits_BV: [B, V] float32 logits.
        params: [B] how to sample each row.
        uniforms: [B] numbers in [0, 1); unused where the temperature is 0.

    Returns:
        [B] ids and [B] logprobs in nats: tempered (untempered where greedy) and untruncated.

    Raises:
        FloatingPointError: A row's logits are not finite.
    """
    logprobs_BV = torch.log_softmax(_tempered(logits_BV, params), dim=-1)
    wide = torch.float32 if logits_BV.device.type == "mps" else torch.float64
    probs_BV = _truncated(logprobs_BV.exp().to(wide), params)
    cumulative_BV = probs_BV.cumsum(dim=-1)
    totals_B1 = cumulative_BV[:, -1:]
    aim_B1 = torch.tensor(uniforms, dtype=wide, device=logits_BV.device)[:, None] * totals_B1
    aim_B1 = torch.minimum(aim_B1, torch.nextafter(totals_B1, torch.zeros_like(totals_B1)))
    ids_B1 = torch.searchsorted(cumulative_BV, aim_B1, right=True)
    ids_B1.clamp_(max=logits_BV.shape[-1] - 1)  # beyond the end only where the logits are NaN
    greedy = [row for row, param in enumerate(params) if param.temperature == 0]
    if greedy:
        ids_B1[greedy] = logits_BV[greedy].argmax(dim=-1, keepdim=True)
    logprobs: list[float] = logprobs_BV.gather(-1, ids_B1)[:, 0].tolist()
    if not all(map(math.isfinite, logprobs)):
        raise FloatingPointError("the model's logits are not finite: its weights have diverged")
    return ids_B1[:, 0].tolist(), logprobs


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def _tempered(logits_BV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    temperatures = [param.temperature or 1.0 for param in params]
    if all(temperature == 1.0 for temperature in temperatures):
        return logits_BV
    return logits_BV / torch.tensor(temperatures, device=logits_BV.device)[:, None]


def _truncated(probs_BV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    rows = [row for row, param in enumerate(params) if param.top_k > 0 or param.top_p < 1.0]
    if not rows:
        return probs_BV
    vocabulary, device = probs_BV.shape[-1], probs_BV.device
    top_k = [params[row].top_k if params[row].top_k > 0 else vocabulary for row in rows]
    top_p = [params[row].top_p for row in rows]
    sorted_probs, order = probs_BV[rows].sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(vocabulary, device=device)
    sorted_probs = sorted_probs * (rank < torch.tensor(top_k, device=device)[:, None])
    before = sorted_probs.cumsum(dim=-1) - sorted_probs
    nucleus = torch.tensor(top_p, dtype=probs_BV.dtype, device=device)[:, None]
    keep = before < nucleus * sorted_probs.sum(dim=-1, keepdim=True)
    keep[:, 0] = True
    probs_BV[rows] = torch.zeros_like(sorted_probs).scatter(-1, order, sorted_probs * keep)
    return probs_BV
