"""What the trainer's model answers to the prompts by which servers' weights are told apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from backends.torch.compute.passes import PassSettings


@torch.no_grad()
def likeliest(
    model: nn.Module, prompts: Sequence[Sequence[int]], settings: PassSettings
) -> list[float]:
    """The logprob in nats of the likeliest next token, at temperature 1.

    Every process of a sharded model calls it with the same prompts.

    Args:
        model: The policy.
        prompts: Token ids, all of one length.
        settings: Where the model is, and what it computes in.
    """
    model.eval()
    ids_BT = torch.tensor([list(prompt) for prompt in prompts], device=settings.device)
    with settings.computing():
        logits_BV = model(input_ids=ids_BT, use_cache=False).logits[:, -1]
    found: list[float] = torch.log_softmax(logits_BV.float(), -1).amax(-1).tolist()
    return found
