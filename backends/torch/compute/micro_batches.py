"""Micro-batches by token budget, and their tensors.

Suffixes: B rows, T padded length, S packed length, R padded response length, N trained tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backends.torch.rows import TrainingRow


def plan_micro_batches(
    lengths: Sequence[int], budget: int, *, packed: bool = False
) -> list[list[int]]:
    """Cut rows into micro-batches of at most `budget` tokens, padding included; longest first.

    Args:
        lengths: [B] tokens of each row.
        budget: Most tokens of a micro-batch; a longer row has one of its own.
        packed: Rows stand one behind the other, so that nothing is padded.

    Returns:
        The places of the rows of each micro-batch.
    """
    planned: list[list[int]] = []
    used = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        added = lengths[place] if packed or not planned else lengths[planned[-1][0]]
        if not planned or used + added > budget:
            planned.append([])
            used, added = 0, lengths[place]
        planned[-1].append(place)
        used += added
    return planned


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The tensors of one forward and backward pass.

    Attributes:
        rows: The rows that it was made from, [B].
        ids: [B, T] tokens padded on the right; of packed rows [1, S].
        attention: [B, T] 1 on tokens; None of packed rows.
        positions: [1, S] positions, beginning anew with every row; None of padded rows.
        keep: [K] the positions in `ids` whose logits are needed.
        at: Where in [B, K] the logits of each trained token stand, two index tensors [N].
        targets: [N] the trained tokens.
        place: Where in [B, R] each trained token stands, two index tensors [N].
        mask: [B, R] 1 on trained tokens.
        old: [B, R] log-probabilities that the ratio is taken against.
        engine: [B, R] the engine's; the same tensor as `old` where it holds them.
        reference: [B, R] the reference model's; None where no row has any.
        advantages: [B, R].
        weights: [B] what a unit of a token's loss adds to the step's loss.
    """

    rows: tuple[TrainingRow, ...]
    ids: Tensor
    attention: Tensor | None
    positions: Tensor | None
    keep: Tensor
    at: tuple[Tensor, Tensor]
    targets: Tensor
    place: tuple[Tensor, Tensor]
    mask: Tensor
    old: Tensor
    engine: Tensor
    reference: Tensor | None
    advantages: Tensor
    weights: Tensor

    @property
    def tokens(self) -> int:
        """Tokens that the model computes, padding included."""
        return self.ids.numel()

    def spread(self, values_N: Tensor) -> Tensor:
        """[B, R] the values of the trained tokens in their places, 0 elsewhere."""
        return torch.zeros_like(self.mask).index_put(self.place, values_N.to(self.mask.dtype))


def make_micro_batch(
    rows: Sequence[TrainingRow], device: torch.device | str, *, packed: bool = False
) -> MicroBatch:
    """Put rows into tensors.

    Args:
        rows: What to train on; at least one, each with at least one prompt token.
        device: Where the tensors go.
        packed: Put them one behind the other in one row.
    """
    width = max(len(row.mask) for row in rows)
    trained = list(_trained_tokens(rows))
    row_N = [row for row, _ in trained]
    predicting_N = [rows[row].prompt_length + slot - 1 for row, slot in trained]
    if packed:
        starts = _starts(rows)
        keep = [starts[row] + t for row, t in zip(row_N, predicting_N, strict=True)]
        at = ([0] * len(keep), list(range(len(keep))))
    else:
        keep = sorted({*predicting_N})
        column = {t: place for place, t in enumerate(keep)}
        at = (row_N, [column[t] for t in predicting_N])
    old = _padded([row.old for row in rows], width)
    references = [row.reference for row in rows]
    made = MicroBatch(
        rows=tuple(rows),
        ids=_ids(rows, packed=packed),
        attention=None if packed else _padded([[1] * len(row.tokens) for row in rows]).long(),
        positions=_positions(rows) if packed else None,
        keep=torch.tensor(keep, dtype=torch.long),
        at=_indices(*at),
        targets=torch.tensor(
            [rows[row].tokens[rows[row].prompt_length + slot] for row, slot in trained],
            dtype=torch.long,
        ),
        place=_indices(row_N, [slot for _, slot in trained]),
        mask=_padded([row.mask for row in rows], width),
        old=old,
        engine=_padded([row.engine or row.old for row in rows], width),
        reference=_padded(references, width) if any(references) else None,
        advantages=_padded([[row.advantage] * len(row.mask) for row in rows], width),
        weights=torch.tensor([row.weight for row in rows]),
    )
    return _moved(made, torch.device(device))


def _trained_tokens(rows: Sequence[TrainingRow]) -> Iterator[tuple[int, int]]:
    """Row and place in the response of each trained token."""
    for place, row in enumerate(rows):
        for slot, flag in enumerate(row.mask):
            if flag:
                yield place, slot


def _starts(rows: Sequence[TrainingRow]) -> list[int]:
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row.tokens))
    return starts[:-1]


def _ids(rows: Sequence[TrainingRow], *, packed: bool) -> Tensor:
    if packed:
        return torch.tensor([[token for row in rows for token in row.tokens]])
    longest = max(len(row.tokens) for row in rows)
    return torch.tensor([[*row.tokens, *[0] * (longest - len(row.tokens))] for row in rows])


def _positions(rows: Sequence[TrainingRow]) -> Tensor:
    return torch.tensor([[t for row in rows for t in range(len(row.tokens))]])


def _padded(values: Sequence[Sequence[float]], width: int | None = None) -> Tensor:
    """[B, width] float32, 0.0 on the right."""
    longest = max(map(len, values)) if width is None else width
    padded = [[*row, *[0.0] * (longest - len(row))] for row in values]
    return torch.tensor(padded, dtype=torch.float32)


def _indices(first: Sequence[int], second: Sequence[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(first, dtype=torch.long), torch.tensor(second, dtype=torch.long)


def _moved(made: MicroBatch, device: torch.device) -> MicroBatch:
    if device.type == "cpu":
        return made

    def move(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(move, value))
        return value.to(device, non_blocking=True) if isinstance(value, Tensor) else value

    names = MicroBatch.__dataclass_fields__
    return MicroBatch(**{name: move(getattr(made, name)) for name in names})
