"""A real GRPOTrainer without its forward pass: everything up to the loss is TRL's own.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from typing import Any

import torch

from backends.trl.parity_trainer import LossReader


class WithoutForward(LossReader):
    """Takes every logprob of the trainer's as 0; the loss and its gradient are still TRL's."""

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **options: Any
    ) -> Any:
        if self._probe_BT is not None:
            kept = (input_ids, attention_mask, logits_to_keep)
            return super()._get_per_token_logps_and_entropies(model, *kept, **options)
        zero = sum(parameter.sum() for parameter in model.parameters()) * 0.0
        logps_BT = torch.zeros(input_ids.size(0), logits_to_keep) + zero
        self._last_logps_BT = logps_BT.detach()
        self._entropies_BT = torch.zeros_like(logps_BT.detach())
        return logps_BT, self._entropies_BT, None
