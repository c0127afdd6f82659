"""Log-probabilities of the trained tokens: one forward pass, the head on the positions needed.

Suffixes: B rows, K kept positions, R response positions, N trained tokens, V words.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from backends.torch.micro_batches import MicroBatch

_CHUNK = 1024
"""Tokens whose entropy is computed at a time, since it takes a copy of their logits."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of the trained tokens.

    Attributes:
        logprobs: [B, R] log-probabilities, in float32; 0 on tokens that are not trained.
        entropy: [B, R] entropy of the distribution that each was drawn from, without a gradient.
    """

    logprobs: Tensor
    entropy: Tensor


def score(model: nn.Module, micro: MicroBatch, *, temperature: float = 1.0) -> Scored:
    """Run the model over a micro-batch.

    Args:
        model: A causal language model of transformers, or one that peft or FSDP has wrapped.
        micro: What to run it over.
        temperature: Divides the logits, as when the tokens were sampled.
    """
    logits_NV = _trained_logits(model, micro)
    if temperature != 1.0:
        logits_NV = logits_NV / temperature
    logprobs_N, entropy_N = token_logprobs(logits_NV, micro.targets)
    return Scored(micro.spread(logprobs_N), micro.spread(entropy_N))


def token_logprobs(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of each target, and the entropy of its distribution, in nats.

    Args:
        logits_NV: Logits, tempered.
        targets_N: Token ids.

    Returns:
        [N] log-probabilities in float32, and [N] entropies without a gradient.
    """
    logits_NV = logits_NV.float()
    normaliser_N = logits_NV.logsumexp(dim=-1)
    chosen_N = logits_NV.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        pairs = zip(torch.split(logits_NV, _CHUNK), torch.split(normaliser_N, _CHUNK), strict=True)
        entropies = [_entropy(logits, normaliser) for logits, normaliser in pairs]
    entropy_N = torch.cat(entropies) if entropies else torch.zeros_like(chosen_N)
    return chosen_N - normaliser_N, entropy_N


def _entropy(logits_NV: Tensor, normaliser_N: Tensor) -> Tensor:
    """H = log Z - sum p x logit."""
    probabilities_NV = torch.exp(logits_NV - normaliser_N.unsqueeze(-1))
    return normaliser_N - (probabilities_NV * logits_NV).sum(dim=-1)


def _trained_logits(model: nn.Module, micro: MicroBatch) -> Tensor:
    """[N, V] the logits that predict the trained tokens."""
    given: dict[str, Any] = {"input_ids": micro.ids, "use_cache": False}
    if micro.attention is not None:
        given["attention_mask"] = micro.attention
    if micro.positions is not None:
        given["position_ids"] = micro.positions
    if not keeps_logits(model):
        logits_BTV: Tensor = model(**given).logits
        return logits_BTV[micro.at[0], micro.keep[micro.at[1]]]
    logits_BKV: Tensor = model(**given, logits_to_keep=micro.keep).logits
    rows, columns = micro.at
    if logits_BKV.shape[0] == 1:
        return logits_BKV[0]
    return logits_BKV[rows, columns]


def keeps_logits(model: nn.Module) -> bool:
    """Whether the model can leave out the logits of positions that nobody asks for."""
    get_base: Any = getattr(model, "get_base_model", None)
    base = model if get_base is None else get_base()
    return "logits_to_keep" in inspect.signature(base.forward).parameters
