"""The native loop without its forward pass: rows, micro-batches, steps and losses are its own.

Suffixes: B rows, R response positions, N trained tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from fuzz_forward import REFERENCE, anchored, logprob

from backends.torch.compute.logprobs import Scored
from backends.torch.compute.micro_batches import MicroBatch
from backends.torch.parity import LossReader
from retrain.parity.rows import Place


class SlopeReader(LossReader):
    """Takes the logprobs of `fuzz_forward` for its models'.

    Attributes:
        slopes: What gradient reached the logprobs of each row's response.
    """

    def __init__(self, *given: Any) -> None:
        """See `LossReader`."""
        super().__init__(*given)
        self.slopes: dict[Place, tuple[float, ...]] = {}

    def score(self, model: Any, micro: MicroBatch, *, temperature: float = 1.0) -> Scored:
        """In place of `backends.torch.compute.logprobs.score`."""
        trains = any(parameter.requires_grad for parameter in model.parameters())
        step = 0 if self.backend is None else self.backend.step  # None: rows are tried for packing
        weights = step + 1 if trains else REFERENCE
        rows_N, columns_N = micro.at
        before_N = micro.ids[rows_N, micro.keep[columns_N]]
        said_BR = micro.spread(logprob(before_N, micro.targets, weights, temperature))
        logprobs_BR = anchored(model, said_BR, lambda found: self._note_slopes(micro, found))
        return Scored(logprobs_BR, torch.zeros_like(said_BR))

    def _note_slopes(self, micro: MicroBatch, slopes_BR: torch.Tensor) -> None:
        for row, slopes in zip(micro.rows, slopes_BR.tolist(), strict=True):
            self.slopes[row.index, row.part] = tuple(slopes[: len(row.mask)])
