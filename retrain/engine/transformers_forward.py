"""Forwards of a causal language model over many sessions: on KV slots, or one by one.

Axis symbols: B spans, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from retrain.engine.transformers_architectures import attention_windows, layer_kinds
from retrain.engine.transformers_cache import SlotCache, Span, StepLayout, lay_out
from retrain.engine.transformers_known import only_wrapped
from retrain.engine.transformers_lean import LeanDecoder, lean_decoder, same_logits
from retrain.engine.transformers_slots import Copied
from retrain.vision.base import VisionProcessor


class Forward(Protocol):
    """Computes new tokens of many slots at once.

    Attributes:
        keeps_turns: A slot can be continued after its request, and cut back to a prefix.
    """

    keeps_turns: bool

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
        ...

    def copy(self, copied: Copied) -> None:
        """Let one slot know what another one knows, up to a length."""
        ...

    def free(self) -> None:
        """Drop all keys and values."""
        ...


class SlotForward:
    """One batched forward over slots of different lengths."""

    keeps_turns = True

    def __init__(
        self, model: nn.Module, *, max_slots: int, max_seq_len: int, dtype: torch.dtype | None
    ) -> None:
        """Prepare slots for a model that `why_no_slots` has nothing against.

        Args:
            model: The model.
            max_slots: Most slots.
            max_seq_len: Most tokens of a slot.
            dtype: What to keep keys and values in; None keeps what the model computes.
        """
        config: Any = model.config
        self._model = model
        self._lean: LeanDecoder | None = None
        self._lean_known = False
        self._lean_agrees: bool | None = None
        self._kinds = layer_kinds(config)
        self._windows = attention_windows(config)
        self._additive = config._attn_implementation == "eager"
        self._cache = SlotCache(config.num_hidden_layers, max_slots, max_seq_len, dtype)

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
        layout = lay_out(spans, next(self._model.parameters()).device)
        self._cache.reserve(max(span.slot for span in spans) + 1, layout.visible)
        self._cache.layout = layout
        masks = {kind: self._mask(layout, window) for kind, window in self._windows.items()}
        logits_BV = self._logits(layout, masks).float()
        return logits_BV if layout.answers is None else logits_BV[layout.answers]

    def copy(self, copied: Copied) -> None:
        """Copy the keys and values of a slot's first tokens to another slot."""
        self._cache.copy(copied.source, copied.target, copied.length)

    def free(self) -> None:
        """Drop all keys and values, and what is known of the model's modules."""
        self._cache.free()
        self._lean, self._lean_known = None, False

    def _logits(self, layout: StepLayout, masks: Mapping[str, Tensor]) -> Tensor:
        """The lean decoder's where there is one and its first answer was the model's own."""
        if not self._lean_known:
            self._lean, self._lean_known = lean_decoder(self._model), True
        if self._lean is None or self._lean_agrees is False or not only_wrapped(self._model):
            return self._own_logits(layout, masks)
        own_BV = self._own_logits(layout, masks) if self._lean_agrees is None else None
        lean_BV = self._lean(layout, [masks[kind] for kind in self._kinds], self._cache)
        if own_BV is None:
            return lean_BV
        self._lean_agrees = same_logits(lean_BV, own_BV)
        return own_BV

    def _own_logits(self, layout: StepLayout, masks: Mapping[str, Tensor]) -> Tensor:
        output = self._model(
            input_ids=layout.ids_BN,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=layout.positions_BN,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def _mask(self, layout: StepLayout, window: int | None) -> Tensor:
        seen = layout.mask(window)
        if not self._additive:
            return seen
        dtype = next(self._model.parameters()).dtype
        hidden = torch.finfo(dtype).min
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, hidden)


@dataclass(slots=True)
class _Row:
    """What one session has computed: its stream, and the model's state after it.

    `shifts` is how far images have moved the positions of the tokens behind them, which models with
    multimodal rotary positions keep on themselves, for the last row that they computed.
    """

    stream: list[int] = field(default_factory=list)
    state: Mapping[str, Cache] = field(default_factory=dict)
    images: Sequence[str] = ()
    shifts: Sequence[Any] = ()


class SingleRowForward:
    """One forward per session, on the model's own cache, made anew for every request.

    For recurrent and unknown architectures, whose state cannot be cut back to a prefix and whose
    rows cannot be padded; and for models that read images. A model that returns no cache computes
    its stream again for every token.
    """

    keeps_turns = False

    def __init__(self, model: nn.Module, vision: VisionProcessor | None = None) -> None:
        """Take any causal language model.

        Args:
            model: The model.
            vision: Its image processor; None where it reads no images.
        """
        self._model = model
        self._vision = vision
        self._shifting = [module for module in model.modules() if hasattr(module, "rope_deltas")]
        self._rows: dict[int, _Row] = {}

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
        return torch.cat([self._one(span) for span in spans])

    def copy(self, copied: Copied) -> None:
        """Move a slot's state to another slot; a state cannot be cut to a length."""
        self._rows[copied.target] = self._rows.pop(copied.source)

    def free(self) -> None:
        """Drop all states."""
        self._rows.clear()

    def _one(self, span: Span) -> Tensor:
        if span.start == 0:
            self._rows[span.slot] = _Row(images=span.images)
        row = self._rows[span.slot]
        row.stream.extend(span.ids)
        ids = list(span.ids) if row.state else row.stream
        device = next(self._model.parameters()).device
        ids_BN = torch.tensor([ids], device=device)
        images = {} if row.state else self._images(row, ids_BN)
        self._shift(row.shifts or (None,) * len(self._shifting))
        output = self._model(input_ids=ids_BN, use_cache=True, **images, **row.state)
        row.shifts = [module.rope_deltas for module in self._shifting]
        self._shift((None,) * len(self._shifting))
        row.state = _state_of(output)
        last_BV: Tensor = output.logits[:, -1].float()
        return last_BV

    def _images(self, row: _Row, ids_BN: Tensor) -> Mapping[str, Any]:
        if not row.images or self._vision is None:
            return {}
        inputs = self._vision.model_inputs(row.images)
        placed = {name: value.to(ids_BN.device) for name, value in inputs.items()}
        return {**placed, "mm_token_type_ids": (ids_BN == self._vision.placeholder_id).int()}

    def _shift(self, shifts: Sequence[Any]) -> None:
        for module, shift in zip(self._shifting, shifts, strict=True):
            module.rope_deltas = shift


def _state_of(output: Any) -> Mapping[str, Cache]:
    states = {name: getattr(output, name, None) for name in ("past_key_values", "cache_params")}
    return {name: state for name, state in states.items() if state is not None}
