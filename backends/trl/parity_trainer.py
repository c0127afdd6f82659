"""A trainer that notes what enters its loss.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from typing import Any

import torch
from trl import GRPOTrainer

from backends.trl.trainer import BridgedGRPOTrainer
from retrain.parity import LossRow
from retrain.parity.rows import rewards_by_name
from retrain.sample import Sample


class LossReader(BridgedGRPOTrainer):
    """Trains as `BridgedGRPOTrainer` does, and keeps every row that entered the loss.

    Attributes:
        read: The rows, in the order trained.
    """

    def __init__(self, **trainer: Any) -> None:
        """Make a trainer; see `BridgedGRPOTrainer`."""
        self.read: list[LossRow] = []
        self._probe_BT: torch.Tensor | None = None
        self._entropies_BT: torch.Tensor | None = None
        self._rewards: list[float] = []
        super().__init__(**trainer)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        rewards: torch.Tensor = super()._calculate_rewards(*args, **kwargs)
        self._rewards = rewards[:, 0].tolist()
        return rewards

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if self._probe_BT is not None:
            return self._probe_BT, self._entropies_BT, None
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._entropies_BT = None if result[1] is None else result[1].detach()
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        weights_BT = self._weights_of(model, inputs)
        for row, place in enumerate(inputs["retrain_row"].tolist()):
            self.read.append(self._row(inputs, row, place, weights_BT))
        return loss

    def _weights_of(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """[B, T] what a unit of each token's loss adds to the step's loss.

        Read from TRL's own loss: where the ratio and the advantages are 1, its derivative by a
        token's logprob is minus that token's weight.
        """
        zeros_BT = torch.zeros_like(inputs["old_per_token_logps"])
        ones = torch.ones(zeros_BT.size(0), device=zeros_BT.device)
        probed = {**inputs, "advantages": ones, "old_per_token_logps": zeros_BT}
        if "ref_per_token_logps" in inputs:
            probed["ref_per_token_logps"] = zeros_BT
        self._probe_BT = zeros_BT.clone().requires_grad_()
        try:
            loss = GRPOTrainer._compute_loss(self, model, probed)
            (gradient_BT,) = torch.autograd.grad(loss, self._probe_BT)
        finally:
            self._probe_BT = None
        return -gradient_BT

    def _advantage(self, inputs: dict[str, Any], row: int, place: int) -> float:
        """A row's advantage; under `tis` the one that the corrections of its tokens multiply."""
        if self._truncated_importance:
            return self._feed.rows[place].advantage
        found: float = inputs["advantages"][row].item()
        return found

    def _row(
        self, inputs: dict[str, Any], row: int, place: int, weights_BT: torch.Tensor
    ) -> LossRow:
        """One row of the batch, its padding removed."""
        sample: Sample = self._feed.rows[place]
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()]
        there = inputs["completion_mask"][row].bool()
        mask = inputs["completion_mask"][row] * inputs["tool_mask"][row]
        response = inputs["completion_ids"][row][there]
        engine = "sampling_per_token_logps" if self._truncated_importance else "old_per_token_logps"
        return LossRow(
            index=sample.index if sample.index is not None else place,
            part=0,
            tokens=(*prompt.tolist(), *response.tolist()),
            mask=tuple(mask[there].tolist()),
            logprobs=tuple(inputs[engine][row][there].tolist()),
            reward=None if sample.remove_sample else self._rewards[place],
            advantage=self._advantage(inputs, row, place),
            weights=tuple(weights_BT[row][there].tolist()),
            step=self.state.global_step,
            rewards=rewards_by_name(sample),
        )
