"""Log-probabilities of the trained tokens: one forward pass, the head on the positions needed.

Suffixes: B rows, T positions, K kept positions, R response positions, N trained tokens, H hidden
size, V words.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from backends.torch.compute.head import Head, head_computes, in_tiles, plain_head, tile_tokens
from backends.torch.compute.micro_batches import MicroBatch


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
    head = plain_head(model)
    if head is None:
        found_N2 = _logprobs_and_entropy(_trained_logits(model, micro), micro.targets, temperature)
    else:
        found_N2 = _computed_in_the_head(model, head, micro, temperature)
    logprobs_N, entropy_N = found_N2.unbind(-1)
    return Scored(micro.spread(logprobs_N), micro.spread(entropy_N.detach()))


def token_logprobs(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of each target, and the entropy of its distribution, in nats.

    Args:
        logits_NV: Logits, tempered.
        targets_N: Token ids.

    Returns:
        [N] log-probabilities in float32, and [N] entropies without a gradient.
    """
    logprobs_N: Tensor
    entropy_N: Tensor
    logprobs_N, entropy_N = _TokenLogprobs.apply(logits_NV, targets_N)  # type: ignore[no-untyped-call]
    return logprobs_N, entropy_N


class _TokenLogprobs(torch.autograd.Function):
    """log p = logit - log Z, whose gradient by the logits is 1 at the target, minus p.

    Written out so that the backward pass takes one float32 copy of the logits.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        found = [_token_logprobs(part, targets) for part, targets in _chunks(logits_NV, targets_N)]
        logprobs_N, normaliser_N, entropy_N = map(torch.cat, zip(*found, strict=True))
        ctx.save_for_backward(logits_NV, targets_N, normaliser_N)
        ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(ctx: Any, gradient_N: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits_NV, targets_N, normaliser_N = ctx.saved_tensors
        wanted_NV = logits_NV.float() - normaliser_N.unsqueeze(-1)
        wanted_NV.exp_().mul_(-gradient_N.unsqueeze(-1))
        wanted_NV.scatter_add_(1, targets_N.unsqueeze(-1), gradient_N.unsqueeze(-1))
        return wanted_NV.to(logits_NV.dtype), None


def _token_logprobs(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[N] log-probabilities, log Z, and entropies: H = log Z - sum p x logit.

    The logits are copied once: `logsumexp` would copy them twice more.
    """
    logits_NV = logits_NV.float()
    chosen_N = logits_NV.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1)
    largest_N1 = logits_NV.amax(dim=-1, keepdim=True)
    shares_NV = (logits_NV - largest_N1).exp_()
    total_N = shares_NV.sum(dim=-1)
    normaliser_N = largest_N1.squeeze(-1) + total_N.log()
    entropy_N = normaliser_N - shares_NV.mul_(logits_NV).sum(dim=-1) / total_N
    return chosen_N - normaliser_N, normaliser_N, entropy_N


def _chunks(logits_NV: Tensor, targets_N: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = tile_tokens(logits_NV.shape[-1])
    return zip(torch.split(logits_NV, size), torch.split(targets_N, size), strict=True)


def _logprobs_and_entropy(logits_NV: Tensor, targets_N: Tensor, temperature: float) -> Tensor:
    """[N, 2], of logits that are not tempered yet."""
    if temperature != 1.0:
        logits_NV = logits_NV.float() / temperature  # a quotient in bfloat16 is wrong by 0.03 nats
    return torch.stack(token_logprobs(logits_NV, targets_N), dim=-1)


def _computed_in_the_head(
    model: nn.Module, head: Any, micro: MicroBatch, temperature: float
) -> Tensor:
    """[N, 2], computed where the model computes its logits."""

    def compute(plain: Head, hidden_BTH: Tensor) -> Tensor:
        def of_tile(hidden_NH: Tensor, targets_N: Tensor) -> Tensor:
            return _logprobs_and_entropy(plain(hidden_NH), targets_N, temperature)

        rows_N, columns_N = micro.at
        hidden_NH = hidden_BTH[rows_N, micro.keep[columns_N]]
        return in_tiles(of_tile, hidden_NH, micro.targets, head.out_features)

    with head_computes(head, compute):
        found_N2: Tensor = model(**_given(micro)).logits
    return found_N2


def _trained_logits(model: nn.Module, micro: MicroBatch) -> Tensor:
    """[N, V] the logits that predict the trained tokens."""
    rows, columns = micro.at
    if not keeps_logits(model):
        logits_BTV: Tensor = model(**_given(micro)).logits
        return logits_BTV[rows, micro.keep[columns]]
    logits_BKV: Tensor = model(**_given(micro), logits_to_keep=micro.keep).logits
    if logits_BKV.shape[0] == 1:
        return logits_BKV[0]
    return logits_BKV[rows, columns]


def _given(micro: MicroBatch) -> dict[str, Any]:
    """What a model is called with."""
    given: dict[str, Any] = {"input_ids": micro.ids, "use_cache": False}
    if micro.attention is not None:
        given["attention_mask"] = micro.attention
    if micro.positions is not None:
        given["position_ids"] = micro.positions
    return given


def keeps_logits(model: nn.Module) -> bool:
    """Whether the model can leave out the logits of positions that nobody asks for."""
    get_base: Any = getattr(model, "get_base_model", None)
    base = model if get_base is None else get_base()
    return "logits_to_keep" in inspect.signature(base.forward).parameters
