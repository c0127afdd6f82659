"""A transformers `Cache` whose rows are KV slots, each written at its own positions.

Axis symbols: S slots, H key-value heads, C capacity in tokens, D head size, B rows of the step,
N columns of the step (its longest row; shorter ones are padded on the left), T = B x N, K tokens
visible to the step, W tokens written by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

_FIRST_CAPACITY = 64


class Span(NamedTuple):
    """Tokens to compute: `ids` of one slot, from position `start`, and the images that they show.

    Images are given with the whole prompt, at position 0.
    """

    slot: int
    start: int
    ids: Sequence[int]
    images: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StepLayout:
    """Where one forward reads and writes.

    Attributes:
        ids_BN: Token ids; padding is 0.
        positions_BN: Position of each token in its slot; padding stands at 0.
        visible: K, the longest row's end.
        rows: The slots that the rows read: a slice where they are neighbours, else their indices.
        answers: Which rows are asked for, in the caller's order; None where it is all, in order.
        written: [W] which of the B * N tokens are no padding; None where it is all.
        write_slots: [W] the slot of each token written.
        write_positions: [W] its position.
    """

    ids_BN: Tensor
    positions_BN: Tensor
    visible: int
    rows: slice | Tensor
    answers: Tensor | None
    written: Tensor | None
    write_slots: Tensor
    write_positions: Tensor

    def view(self, buffer_SHCD: Tensor) -> Tensor:
        """[B, H, K, D] what the step's rows see: a view where they are neighbours, else a copy."""
        return buffer_SHCD[self.rows, :, : self.visible]

    def write(self, buffer_SHCD: Tensor, states_THD: Tensor) -> None:
        """Put the step's own keys or values in their places; T = B x N, padding included."""
        states_WHD = states_THD if self.written is None else states_THD[self.written]
        places = (self.write_slots, slice(None), self.write_positions)
        buffer_SHCD[places] = states_WHD.to(buffer_SHCD.dtype)

    def mask(self, window: int | None) -> Tensor:
        """[B, 1, N, K] True where a token sees a position: its own past, within the window.

        Args:
            window: How many of the newest tokens are seen, the token itself included; None is all.
        """
        kv_K = torch.arange(self.visible, device=self.positions_BN.device)
        own_BN1 = self.positions_BN[..., None]
        seen = kv_K <= own_BN1
        if window is not None:
            seen &= kv_K > own_BN1 - window
        return seen[:, None]


def lay_out(spans: Sequence[Span], device: torch.device) -> StepLayout:
    """Arrange spans of different slots, starts and lengths as one batch.

    Slots that are neighbours are read in place. In a step of one token a row, up to half of the
    rows may be idle slots that lie between: computing a token for nobody is cheaper than copying
    the keys and values of everybody. Otherwise the slots' contents are copied together.

    Args:
        spans: At least one, each of another slot and not empty.
        device: Where the model is.
    """
    columns = max(len(span.ids) for span in spans)
    slots = [span.slot for span in spans]
    low = min(slots)
    width = max(slots) - low + 1
    if columns == 1 and slots == list(range(low, low + width)):
        return _lay_out_tokens(spans, slots, device)
    in_place = width == len(spans) or (columns == 1 and width <= 2 * len(spans))
    rows = list(spans)
    if in_place:
        rows = [Span(low + row, 0, ()) for row in range(width)]
        for span in spans:
            rows[span.slot - low] = span
    answers = [slot - low for slot in slots] if in_place else list(range(len(rows)))

    def long(values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=device)

    pads = [columns - len(span.ids) for span in rows]
    padded = any(pads)
    places = [list(range(span.start, span.start + len(span.ids))) for span in rows]
    return StepLayout(
        ids_BN=long([[0] * pad + list(span.ids) for pad, span in zip(pads, rows, strict=True)]),
        positions_BN=long([[0] * pad + own for pad, own in zip(pads, places, strict=True)]),
        visible=max(span.start + len(span.ids) for span in rows),
        rows=slice(low, low + width) if in_place else long([span.slot for span in rows]),
        answers=None if answers == list(range(len(rows))) else long(answers),
        written=long(_no_padding(pads, columns)) if padded else None,
        write_slots=long([span.slot for span in rows for _ in span.ids]),
        write_positions=long([place for own in places for place in own]),
    )


def _lay_out_tokens(
    spans: Sequence[Span], slots: Sequence[int], device: torch.device
) -> StepLayout:
    """The layout of one token for each of neighbouring slots, in their order."""
    starts = [span.start for span in spans]
    ids = [span.ids[0] for span in spans]
    ids_B, starts_B, slots_B = torch.tensor([ids, starts, slots], device=device)
    return StepLayout(
        ids_BN=ids_B[:, None],
        positions_BN=starts_B[:, None],
        visible=max(starts) + 1,
        rows=slice(slots[0], slots[-1] + 1),
        answers=None,
        written=None,
        write_slots=slots_B,
        write_positions=starts_B,
    )


def _no_padding(pads: Sequence[int], columns: int) -> list[int]:
    return [
        row * columns + column for row, pad in enumerate(pads) for column in range(pad, columns)
    ]


class SlotLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values, [S, H, C, D] each."""

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cache = cache

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """`extend` as transformers calls it, on states [B, H, N, D]."""
        return self.extend(
            key_states.transpose(1, 2).flatten(0, 1), value_states.transpose(1, 2).flatten(0, 1)
        )

    def extend(self, keys_THD: Tensor, values_THD: Tensor) -> tuple[Tensor, Tensor]:
        """Write the step's keys and values, and return all that its rows see.

        Args:
            keys_THD: [T, H, D] the keys of the step's B x N tokens, padding included.
            values_THD: [T, H, D] their values.

        Returns:
            Keys and values, [B, H, K, D] each.
        """
        layout = self._cache.layout
        if self.keys is None or self.values is None:
            self.keys, self.values = self._cache.room(keys_THD), self._cache.room(values_THD)
        layout.write(self.keys, keys_THD)
        layout.write(self.values, values_THD)
        return layout.view(self.keys), layout.view(self.values)


class SlotCache(Cache):
    """KV slots for all layers; buffers are made on first use and grow with what is used.

    Attributes:
        layout: Where the forward that is about to run reads and writes.
        slot_layers: The keys and values by layer.
    """

    layout: StepLayout

    def __init__(
        self, layers: int, max_slots: int, max_seq_len: int, dtype: torch.dtype | None
    ) -> None:
        """Allocate nothing yet.

        Args:
            layers: Layers of the model.
            max_slots: Most slots, S at its largest.
            max_seq_len: Most tokens of a slot, C at its largest.
            dtype: What to keep keys and values in; None keeps what the model computes.
        """
        self.slot_layers = [SlotLayer(self) for _ in range(layers)]
        super().__init__(layers=[*self.slot_layers])
        self._limits = (max_slots, max_seq_len)
        self._capacity = (0, 0)
        self._dtype = dtype

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` slots of `length` tokens, with space to grow."""
        have_slots, have_length = self._capacity
        if slots > have_slots:
            have_slots = min(self._limits[0], max(slots, 2 * have_slots))
        if length > have_length:
            have_length = min(self._limits[1], max(length * 3 // 2, _FIRST_CAPACITY))
        if self._capacity == (have_slots, have_length):
            return
        self._capacity = (have_slots, have_length)
        for layer in self.slot_layers:
            if layer.keys is not None and layer.values is not None:
                layer.keys, layer.values = self._grown(layer.keys), self._grown(layer.values)

    def room(self, states_THD: Tensor) -> Tensor:
        """A buffer of the reserved size for states of one layer, as `_new` makes it."""
        _, heads, size = states_THD.shape
        return self._new(heads, size, self._dtype or states_THD.dtype, states_THD.device)

    def _grown(self, buffer_SHCD: Tensor) -> Tensor:
        slots, heads, length, size = buffer_SHCD.shape
        new = self._new(heads, size, buffer_SHCD.dtype, buffer_SHCD.device)
        new[:slots, :, :length] = buffer_SHCD
        return new

    def _new(self, heads: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[S, H, C, D] zeros: what is masked still enters a product, and 0 x NaN is NaN."""
        slots, length = self._capacity
        return torch.zeros(slots, heads, length, size, dtype=dtype, device=device)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of slot `source` into slot `target`."""
        self.reserve(target + 1, length)
        for layer in self.slot_layers:
            for buffer_SHCD in (layer.keys, layer.values):
                if buffer_SHCD is not None:
                    buffer_SHCD[target, :, :length] = buffer_SHCD[source, :, :length]

    def free(self) -> None:
        """Give the memory back; the next forward allocates as much again at once."""
        for layer in self.slot_layers:
            layer.keys = layer.values = None
