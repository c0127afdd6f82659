"""Objectives: what a micro-batch's log-probabilities cost, token by token.

Suffixes: B rows, R response positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from backends.torch.compute.micro_batches import MicroBatch
from backends.torch.losses import (
    KLEstimator,
    grpo_loss,
    is_clipped,
    kl_divergence,
    sequence_ratio,
    sft_loss,
    token_ratio,
    truncated_weights,
)
from retrain.errors import ConfigError, nearest

CURRENT_GAP = "train/logprob_abs_diff_current"
CURRENT_SHARE = "train/current_share"
"""The gap on tokens of the present weights, as a mean over all trained tokens, and the share of
these tokens among them: both are sums over processes, and their ratio is the metric."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an objective makes of a micro-batch.

    Attributes:
        losses: [B, R] each token's loss.
        measured: [B, R] what is measured on each token beside it, by metric name.
    """

    losses: Tensor
    measured: Mapping[str, Tensor]


class Objective(Protocol):
    """Gives each trained token its loss; a backend sums them with the rows' weights."""

    def __call__(self, logprobs_BR: Tensor, micro: MicroBatch) -> Cost:
        """The cost of a micro-batch.

        Args:
            logprobs_BR: The policy's log-probabilities, with their graph.
            micro: The rest.
        """
        ...


@dataclass(frozen=True, slots=True)
class PolicyObjective:
    """GRPO and its relatives: a clipped surrogate, with a KL term where `kl_coef` is not 0.

    Attributes:
        clip_low: The ratio is clipped below at 1 - this.
        clip_high: The ratio is clipped above at 1 + this.
        sequence_level: GSPO's ratio in place of the tokens' own.
        kl_coef: Weight of the KL divergence from the reference model.
        kl_estimator: k1, k2 or k3.
        truncated_importance: Weight each token's advantage by min(exp(old - engine), 2).
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    sequence_level: bool = False
    kl_coef: float = 0.0
    kl_estimator: KLEstimator = "k3"
    truncated_importance: bool = False

    def __call__(self, logprobs_BR: Tensor, micro: MicroBatch) -> Cost:
        """See `Objective`."""
        advantages_BR = micro.advantages
        if self.truncated_importance:
            advantages_BR = advantages_BR * truncated_weights(micro.old, micro.engine)
        losses_BR = grpo_loss(
            logprobs_BR,
            micro.old,
            micro.mask,
            advantages_BR,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            sequence_level=self.sequence_level,
        )
        gap_BR = (logprobs_BR.detach() - micro.engine).abs()
        measured = {
            "train/clip_fraction": self._clipped(logprobs_BR.detach(), advantages_BR, micro),
            "train/logprob_abs_diff": gap_BR,
        }
        if micro.rows[0].current:
            current_BR = _current(micro)
            measured[CURRENT_GAP] = gap_BR * current_BR
            measured[CURRENT_SHARE] = current_BR
        if self.kl_coef:
            if micro.reference is None:
                raise ConfigError(
                    "kl_coef: needs the reference model's log-probabilities; give rows with "
                    "TrainingBatch.with_reference"
                )
            kl_BR = kl_divergence(logprobs_BR, micro.reference, self.kl_estimator)
            losses_BR = losses_BR + self.kl_coef * kl_BR
            measured["train/kl"] = kl_BR.detach()
        return Cost(losses_BR, measured)

    def _clipped(self, logprobs_BR: Tensor, advantages_BR: Tensor, micro: MicroBatch) -> Tensor:
        if self.sequence_level:
            ratio_BR = sequence_ratio(logprobs_BR, micro.old, micro.mask)
        else:
            ratio_BR = token_ratio(logprobs_BR, micro.old)
        return is_clipped(ratio_BR, advantages_BR, self.clip_low, self.clip_high).float()


def _current(micro: MicroBatch) -> Tensor:
    """[B, R] 1 on the tokens that the present weights wrote."""
    current_BR = torch.zeros_like(micro.mask)
    for place, row in enumerate(micro.rows):
        current_BR[place, : len(row.current)] = current_BR.new_tensor(row.current)
    return current_BR


@dataclass(frozen=True, slots=True)
class ImitationObjective:
    """Supervised fine-tuning: cross-entropy on the trained tokens."""

    def __call__(self, logprobs_BR: Tensor, micro: MicroBatch) -> Cost:
        """See `Objective`."""
        return Cost(sft_loss(logprobs_BR), {})


OBJECTIVES: Mapping[str, Callable[[], Objective]] = {
    "grpo": PolicyObjective,
    "gspo": lambda: PolicyObjective(sequence_level=True),
    "sft": ImitationObjective,
}
"""Objectives by name, with their defaults."""


def make_objective(named: str | Objective) -> Objective:
    """The objective of a name; an objective is given back as it is.

    Raises:
        ConfigError: There is none of that name.
    """
    if not isinstance(named, str):
        return named
    if named not in OBJECTIVES:
        raise ConfigError(f"loss_fn: no loss {named!r}; {nearest(named, OBJECTIVES)}")
    return OBJECTIVES[named]()
