"""What `retrain parity` reads off the native loss: each row's weights, with any KL term."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backends.torch.compute.micro_batches import make_micro_batch
from backends.torch.objective import PolicyObjective
from backends.torch.parity import LossReader
from backends.torch.rows import TrainingBatch, by_index


@pytest.mark.parametrize(
    "objective",
    [
        PolicyObjective(),
        PolicyObjective(sequence_level=True, clip_low=0.0, clip_high=0.0),
        *(PolicyObjective(kl_coef=0.3, kl_estimator=name) for name in ("k1", "k2", "k3")),
    ],
)
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_the_weights_read_are_those_of_the_rows(
    samples: Any, aggregation: Any, objective: PolicyObjective
) -> None:
    made = samples(5)
    batch = TrainingBatch.of(made).weighted(aggregation, 12)
    batch = batch.with_reference([row.old for row in batch.rows])
    reader = LossReader(objective, objective.kl_coef)
    reader.samples = by_index(made)
    reader.backend = SimpleNamespace(step=3)
    reader.steps = {(row.index, row.part): 3 for row in batch.rows}
    micro = make_micro_batch([row for row in batch.rows if row.trained], "cpu")
    reader(micro.old.clone().requires_grad_(), micro)
    reader.read.extend(reader.missing())
    assert len(reader.read) == len(batch.rows)
    for found in reader.read:
        row = next(row for row in batch.rows if row.index == found.index)
        expected = [row.weight * flag for flag in row.mask]
        assert found.tokens == row.tokens
        assert found.mask == row.mask
        if sum(row.mask):
            torch.testing.assert_close(torch.tensor(found.weights), torch.tensor(expected))
