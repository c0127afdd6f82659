"""The forward of the commonest decoders without their modules: the same sums on the same weights.

A decoding step of a small model is mostly Python between the kernels of its modules. Here a step
is the kernels alone, and nothing is copied: weights are read where the model has them.

Axis symbols: B rows, N columns, T = B x N tokens, E width, H heads, G key-value heads, R = H / G
heads that share keys and values, D head size, K visible positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from retrain.engine.transformers_cache import SlotCache, StepLayout
from retrain.engine.transformers_known import is_untouched, known_decoder

Projection = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class _Norm:
    """RMSNorm (Zhang and Sennrich, 2019), rounded where transformers rounds."""

    weight: Tensor
    eps: float

    def __call__(self, states: Tensor) -> Tensor:
        if states.dtype == torch.float32:
            return functional.rms_norm(states, states.shape[-1:], self.weight, self.eps)
        wide = states.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(states.dtype)


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one decoder layer computes with."""

    before_attention: _Norm
    q: Projection
    k: Projection
    v: Projection
    q_norm: _Norm | None
    k_norm: _Norm | None
    head_size: int
    scale: float
    o: Projection
    before_mlp: _Norm
    gate: Projection
    up: Projection
    down: Projection
    activation: Callable[[Tensor], Tensor]


class LeanDecoder:
    """Computes what the model it is made of computes; `lean_decoder` makes one."""

    def __init__(self, model: Any) -> None:
        """Read the weights' places off a model's modules."""
        self._embed = model.model.embed_tokens
        self._layers = [_read_layer(layer) for layer in model.model.layers]
        self._norm = _read_norm(model.model.norm)
        self._head = _projection(model.lm_head)
        self._rotary = model.model.rotary_emb
        self._angles: tuple[Tensor, Tensor] | None = None

    def __call__(self, layout: StepLayout, masks: list[Tensor], cache: SlotCache) -> Tensor:
        """[B, V] logits after the last column; the step's keys and values go into the cache.

        Args:
            layout: What the step computes.
            masks: By layer, [B, 1, N, K] what a token sees.
            cache: Where the rows' keys and values are.
        """
        rows, columns = layout.ids_BN.shape
        tokens = rows * columns
        states_TE = self._embed(layout.ids_BN.view(-1))
        turn = self._rotation(layout, states_TE.dtype)
        for layer, slots, mask in zip(self._layers, cache.slot_layers, masks, strict=True):
            normed_TE = layer.before_attention(states_TE)
            q_THD = layer.q(normed_TE).view(tokens, -1, layer.head_size)
            k_TGD = layer.k(normed_TE).view(tokens, -1, layer.head_size)
            v_TGD = layer.v(normed_TE).view(tokens, -1, layer.head_size)
            if layer.q_norm is not None and layer.k_norm is not None:
                q_THD, k_TGD = layer.q_norm(q_THD), layer.k_norm(k_TGD)
            seen = slots.extend(turn(k_TGD), v_TGD)
            mixed_TE = _attend(turn(q_THD), *seen, mask, layer.scale)
            states_TE = states_TE + layer.o(mixed_TE)
            normed_TE = layer.before_mlp(states_TE)
            gated = layer.activation(layer.gate(normed_TE)) * layer.up(normed_TE)
            states_TE = states_TE + layer.down(gated)
        last_BE = states_TE.view(rows, columns, -1)[:, -1]
        return self._head(self._norm(last_BE))

    def _rotation(self, layout: StepLayout, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
        """Rotary position embedding (Su et al., 2021) of the step's tokens, halves paired."""
        cos_KD, sin_KD = self._table(layout.visible, dtype, layout.ids_BN.device)
        places_T = layout.positions_BN.view(-1)
        cos_T1D, sin_T1D = cos_KD[places_T][:, None], sin_KD[places_T][:, None]
        half = cos_KD.shape[-1] // 2

        def turn(states_THD: Tensor) -> Tensor:
            return states_THD * cos_T1D + torch.roll(states_THD, half, -1) * sin_T1D

        return turn

    def _table(
        self, length: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Cosine and sine by position; the first half of the sine is negated."""
        if self._angles is None or len(self._angles[0]) < length:
            places_1K = torch.arange(2 * length, device=device)[None]
            cos_1KD, sin_1KD = self._rotary(torch.empty(0, dtype=dtype, device=device), places_1K)
            first, second = sin_1KD[0].chunk(2, -1)
            self._angles = cos_1KD[0], torch.cat((-first, second), -1)
        return self._angles


def lean_decoder(model: nn.Module) -> LeanDecoder | None:
    """Make a decoder without modules, where the model is one that is known through and through.

    Linear layers that are not plain (LoRA, quantised) are called as they are.

    Args:
        model: A causal language model of transformers, or one that peft has wrapped.

    Returns:
        The decoder; None where `known_decoder` knows none.
    """
    inner = known_decoder(model)
    return None if inner is None else LeanDecoder(inner)


def same_logits(lean_BV: Tensor, own_BV: Tensor) -> bool:
    """Whether two forwards agree up to the rounding of the type that they compute in."""
    bound = 1e-3 if own_BV.dtype == torch.float32 else 0.1
    lean, own = lean_BV.float().log_softmax(-1), own_BV.float().log_softmax(-1)
    return bool((lean - own).abs().max() < bound)


def _read_layer(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    normed = hasattr(attention, "q_norm")
    return _Layer(
        before_attention=_read_norm(layer.input_layernorm),
        q=_projection(attention.q_proj),
        k=_projection(attention.k_proj),
        v=_projection(attention.v_proj),
        q_norm=_read_norm(attention.q_norm) if normed else None,
        k_norm=_read_norm(attention.k_norm) if normed else None,
        head_size=attention.head_dim,
        scale=attention.scaling,
        o=_projection(attention.o_proj),
        before_mlp=_read_norm(layer.post_attention_layernorm),
        gate=_projection(mlp.gate_proj),
        up=_projection(mlp.up_proj),
        down=_projection(mlp.down_proj),
        activation=mlp.act_fn,
    )


def _read_norm(norm: Any) -> _Norm:
    return _Norm(norm.weight, norm.variance_epsilon)


def _projection(module: nn.Module) -> Projection:
    if type(module) is nn.Linear and is_untouched(module):
        return partial(functional.linear, weight=module.weight, bias=module.bias)
    return module


def _attend(
    q_THD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, mask_B1NK: Tensor, scale: float
) -> Tensor:
    """[T, H * D] attention of the step's tokens; heads that share keys stand as further queries."""
    rows, groups, _, size = k_BGKD.shape
    columns = mask_B1NK.shape[2]
    attention = functional.scaled_dot_product_attention
    if columns == 1:
        q_BGRD = q_THD.view(rows, groups, -1, size)
        return attention(q_BGRD, k_BGKD, v_BGKD, mask_B1NK, scale=scale).reshape(rows, -1)
    q_BGRND = q_THD.view(rows, columns, groups, -1, size).permute(0, 2, 3, 1, 4)
    shared = q_BGRND.shape[2]
    mask = mask_B1NK.repeat(1, 1, shared, 1)
    mixed = attention(q_BGRND.flatten(2, 3), k_BGKD, v_BGKD, mask, scale=scale)
    by_head = mixed.view(rows, groups, shared, columns, size)
    return by_head.permute(0, 3, 1, 2, 4).reshape(rows * columns, -1)
