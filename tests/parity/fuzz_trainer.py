"""A real GRPOTrainer without its forward pass: everything up to the loss is TRL's own.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from typing import Any

import torch
from fuzz_forward import REFERENCE, anchored, logprob

from backends.trl.parity_trainer import LossReader
from retrain.parity.rows import Place


class WithoutForward(LossReader):
    """Takes the logprobs of `fuzz_forward` for its models'; the loss and its gradient are TRL's.

    Attributes:
        slopes: What gradient reached the logprobs of each row's response.
    """

    def __init__(self, **trainer: Any) -> None:
        """Make a trainer; see `BridgedGRPOTrainer`."""
        self.slopes: dict[Place, tuple[float, ...]] = {}
        self._entering: dict[str, Any] = {}
        super().__init__(**trainer)

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **options: Any
    ) -> Any:
        if self._probe_BT is not None:
            kept = (input_ids, attention_mask, logits_to_keep)
            return super()._get_per_token_logps_and_entropies(model, *kept, **options)
        weights = REFERENCE if model is self.ref_model else self.state.global_step + 1
        before_BT, token_BT = input_ids[:, -logits_to_keep - 1 : -1], input_ids[:, -logits_to_keep:]
        said_BT = logprob(before_BT, token_BT, weights, self.temperature)
        logps_BT = anchored(model, said_BT, self._note_slopes)
        self._last_logps_BT = logps_BT.detach()
        self._entropies_BT = torch.zeros_like(self._last_logps_BT)
        return logps_BT, self._entropies_BT, None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._entering = inputs
        return super()._compute_loss(model, inputs)

    def _note_slopes(self, slopes_BT: torch.Tensor) -> None:
        for row, place in enumerate(self._entering["retrain_row"].tolist()):
            there = self._entering["completion_mask"][row].bool()
            index = self._feed.rows[place].index
            assert index is not None
            self.slopes[index, 0] = tuple(slopes_BT[row][there].tolist())
