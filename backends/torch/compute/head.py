"""The model's last layer in tiles: no more logits exist at a time than one tile has.

Suffixes: B rows, T positions, N trained tokens, H hidden size, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

TILE_NUMBERS = 2**26
"""Most logits of a tile: 256 MiB in float32."""

Head = Callable[[Tensor], Tensor]
"""Gives the logits of hidden states."""

_PLAIN: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def tile_tokens(words: int) -> int:
    """Most tokens of a tile over a vocabulary."""
    return max(1, TILE_NUMBERS // words)


def in_tiles(
    compute: Callable[[Tensor, Tensor], Tensor], hidden_NH: Tensor, targets_N: Tensor, words: int
) -> Tensor:
    """Compute the tokens tile by tile; what a tile holds is computed again in the backward pass.

    Where one tile is enough, it is kept. The method is that of Chen et al. 2016, "Training Deep
    Nets with Sublinear Memory Cost" (arXiv:1604.06174).

    Args:
        compute: Given hidden states and targets of a tile.
        hidden_NH: What the head is given.
        targets_N: Token ids.
        words: V.
    """
    size = tile_tokens(words)
    if len(targets_N) <= size:
        return compute(hidden_NH, targets_N)
    tiles = zip(torch.split(hidden_NH, size), torch.split(targets_N, size), strict=True)
    return torch.cat([_again(compute, *tile) for tile in tiles])


def _again(compute: Callable[[Tensor, Tensor], Tensor], *tile: Tensor) -> Tensor:
    found: Tensor = checkpoint(compute, *tile, use_reentrant=False, preserve_rng_state=False)
    return found


@contextmanager
def head_computes(head: nn.Module, compute: Callable[[Head, Tensor], Tensor]) -> Iterator[None]:
    """Have a model's head give something else than logits while the context lasts.

    It is computed where the model computes its head, so that FSDP has its weights together.

    Args:
        head: The last layer.
        compute: Given the layer's own computation and the hidden states.
    """
    plain: Head = head.forward
    own = head.__dict__.get("forward")
    head.forward = lambda hidden_BTH: compute(plain, hidden_BTH)
    try:
        yield
    finally:
        del head.forward
        if own is not None:
            head.forward = own


def plain_head(model: nn.Module) -> Any:
    """A model's head, where its logits are what that layer gives; None where it is not so.

    Some models scale or cap their logits. One token is computed to know, by all processes that
    train together at the same time, and once for each model.
    """
    get_head: Any = getattr(model, "get_output_embeddings", None)
    head = None if get_head is None else get_head()
    if head is not None and model not in _PLAIN:
        _PLAIN[model] = _gives_the_logits(head, model)
    return head if _PLAIN.get(model) else None


@torch.no_grad()
def _gives_the_logits(head: nn.Module, model: nn.Module) -> bool:
    given: list[Tensor] = []
    device = next(model.parameters()).device
    token = torch.zeros((1, 1), dtype=torch.long, device=device)
    noting = head.register_forward_hook(lambda module, hidden, logits: given.append(logits))
    others = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(others):  # a model with dropout draws from it
            logits = model(input_ids=token, use_cache=False).logits
    finally:
        noting.remove()
    return len(given) == 1 and given[0] is logits
