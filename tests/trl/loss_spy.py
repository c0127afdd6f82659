"""Watches the real trainer: what enters the loss, beside what was collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from retrain.sample import Sample


@dataclass
class MicroBatch:
    """One call of the loss: its inputs, its value, and our rows of the generation batch."""

    inputs: dict[str, Any]
    loss: torch.Tensor
    rows: list[Sample]
    logps: torch.Tensor
    step: int

    def samples(self) -> list[Sample]:
        """Our samples in the order of the inputs' rows."""
        return [self.rows[i] for i in self.inputs["retrain_row"].tolist()]


@dataclass
class LossSpy:
    batches: list[MicroBatch] = field(default_factory=list)
    trainers: list[Any] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from backends.trl.trainer import BridgedGRPOTrainer

        original = BridgedGRPOTrainer._compute_loss

        def watched(trainer: Any, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
            loss = original(trainer, model, inputs)
            copied = {k: v.clone() if torch.is_tensor(v) else v for k, v in inputs.items()}
            rows, logps = list(trainer._feed.rows), trainer._last_logps_BT.clone()
            step = trainer.state.global_step
            self.batches.append(MicroBatch(copied, loss.detach(), rows, logps, step))
            if trainer not in self.trainers:
                self.trainers.append(trainer)
            return loss

        monkeypatch.setattr(BridgedGRPOTrainer, "_compute_loss", watched)
