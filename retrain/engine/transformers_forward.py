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

from retrain.engine.transformers_architectures import attention_windows
from retrain.engine.transformers_cache import SlotCache, Span, StepLayout, lay_out


class Forward(Protocol):
    """Computes new tokens of many slots at once.

    Attributes:
        keeps_turns: A slot can be continued after its request, and cut back to a prefix.
    """

    keeps_turns: bool

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
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
        self._windows = attention_windows(config)
        self._additive = config._attn_implementation == "eager"
        self._cache = SlotCache(config.num_hidden_layers, max_slots, max_seq_len, dtype)

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
        layout = lay_out(spans, next(self._model.parameters()).device)
        self._cache.reserve(max(span.slot for span in spans) + 1, layout.visible)
        self._cache.layout = layout
        output = self._model(
            input_ids=layout.ids_BN,
            attention_mask=self._masks(layout),
            position_ids=layout.positions_BN,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits_BV: Tensor = output.logits[:, -1].float()
        return logits_BV if layout.answers is None else logits_BV[layout.answers]

    def free(self) -> None:
        """Drop all keys and values."""
        self._cache.free()

    def _masks(self, layout: StepLayout) -> Tensor | Mapping[str, Tensor]:
        masks = {kind: self._mask(layout, window) for kind, window in self._windows.items()}
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _mask(self, layout: StepLayout, window: int | None) -> Tensor:
        seen = layout.mask(window)
        if not self._additive:
            return seen
        dtype = next(self._model.parameters()).dtype
        hidden = torch.finfo(dtype).min
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, hidden)


@dataclass(slots=True)
class _Row:
    """What one session has computed: its stream, and the model's state after it."""

    stream: list[int] = field(default_factory=list)
    state: Mapping[str, Cache] = field(default_factory=dict)


class SingleRowForward:
    """One forward per session, on the model's own cache, made anew for every request.

    For recurrent and unknown architectures, whose state cannot be cut back to a prefix and whose
    rows cannot be padded. A model that returns no cache computes its stream again for every token.
    """

    keeps_turns = False

    def __init__(self, model: nn.Module) -> None:
        """Take any causal language model."""
        self._model = model
        self._rows: dict[int, _Row] = {}

    def __call__(self, spans: Sequence[Span]) -> Tensor:
        """[B, V] float32 logits after the last token of each span."""
        return torch.cat([self._one(span) for span in spans])

    def free(self) -> None:
        """Drop all states."""
        self._rows.clear()

    def _one(self, span: Span) -> Tensor:
        if span.start == 0:
            self._rows[span.slot] = _Row()
        row = self._rows[span.slot]
        row.stream.extend(span.ids)
        ids = list(span.ids) if row.state else row.stream
        device = next(self._model.parameters()).device
        output = self._model(
            input_ids=torch.tensor([ids], device=device), use_cache=True, **row.state
        )
        row.state = _state_of(output)
        last_BV: Tensor = output.logits[:, -1].float()
        return last_BV


def _state_of(output: Any) -> Mapping[str, Cache]:
    states = {name: getattr(output, name, None) for name in ("past_key_values", "cache_params")}
    return {name: state for name, state in states.items() if state is not None}
