"""Losses as pure functions on the log-probabilities of trained tokens.

Suffixes: B rows (token streams), R response positions, N any one shape. Log-probabilities are in
nats, tempered as they were when the tokens were sampled. Functions that end in `_loss` give each
token's loss; `weighted_sum` makes a step's loss of them, with the weights of `aggregation`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from retrain.errors import ConfigError, nearest

KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]

TIS_CAP = 2.0
"""Cap of the truncated importance weight, as on the other backends."""


def sft_loss(logprobs_N: Tensor) -> Tensor:
    """The negative log-likelihood of each token: cross-entropy with the token as its label.

    Args:
        logprobs_N: The policy's log-probabilities of the tokens to imitate.

    Returns:
        [N] losses.
    """
    return -logprobs_N


def token_ratio(logprobs_N: Tensor, old_N: Tensor) -> Tensor:
    """The importance ratio of each token, pi(token) / pi_old(token).

    Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms" (arXiv:1707.06347),
    section 3.

    Args:
        logprobs_N: The policy's log-probabilities.
        old_N: Those of the policy that sampled.
    """
    return torch.exp(logprobs_N - old_N)


def sequence_ratio(logprobs_BR: Tensor, old_BR: Tensor, mask_BR: Tensor) -> Tensor:
    """GSPO's ratio: the geometric mean of a row's token ratios, the same on all its tokens.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization" (arXiv:2507.18071), equation 7.

    Args:
        logprobs_BR: The policy's log-probabilities.
        old_BR: Those of the policy that sampled.
        mask_BR: 1 on trained tokens.

    Returns:
        [B, R] ratios; a row without trained tokens has 1.
    """
    log_ratio_BR = (logprobs_BR - old_BR) * mask_BR
    trained_B1 = mask_BR.sum(dim=1, keepdim=True).clamp(min=1.0)
    mean_B1 = log_ratio_BR.sum(dim=1, keepdim=True) / trained_B1
    return torch.exp(mean_B1).expand_as(logprobs_BR)


def ppo_loss(ratio_N: Tensor, advantages_N: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """PPO's clipped surrogate, -min(r A, clip(r, 1 - low, 1 + high) A), of each token.

    Source: Schulman et al. 2017 (arXiv:1707.06347), equation 7; two different bounds
    ("clip-higher") are those of Yu et al. 2025, "DAPO" (arXiv:2503.14476), equation 10.

    Args:
        ratio_N: Importance ratios, of tokens or of sequences.
        advantages_N: Each token's advantage.
        clip_low: The ratio is clipped below at 1 - this.
        clip_high: The ratio is clipped above at 1 + this.

    Returns:
        [N] losses; their gradient is 0 where the clipped term is the smaller one.
    """
    clipped_N = ratio_N.clamp(1 - clip_low, 1 + clip_high)
    return -torch.minimum(ratio_N * advantages_N, clipped_N * advantages_N)


def is_clipped(ratio_N: Tensor, advantages_N: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """[N] whether `ppo_loss` gives a token no gradient because its ratio has left the bounds."""
    below_N = (ratio_N < 1 - clip_low) & (advantages_N < 0)
    above_N = (ratio_N > 1 + clip_high) & (advantages_N > 0)
    return below_N | above_N


def kl_divergence(logprobs_N: Tensor, reference_N: Tensor, estimator: KLEstimator) -> Tensor:
    """An estimate of KL(policy || reference) from each token that the policy sampled.

    With d = log pi_ref - log pi: k1 is -d, k2 is d^2 / 2, k3 is exp(d) - d - 1. k1 and k3 are
    unbiased, k2 and k3 are never negative.
    Source: Schulman 2020, "Approximating KL Divergence" (joschu.net/blog/kl-approx.html).

    Args:
        logprobs_N: The policy's log-probabilities.
        reference_N: The reference's, of the same tokens.
        estimator: k1, k2 or k3.

    Raises:
        ConfigError: There is no such estimator.
    """
    d_N = reference_N - logprobs_N
    if estimator == "k1":
        return -d_N
    if estimator == "k2":
        return d_N.square() / 2
    if estimator == "k3":
        return torch.exp(d_N) - d_N - 1
    hint = nearest(estimator, ("k1", "k2", "k3"))
    raise ConfigError(f"kl_estimator: no estimator {estimator!r}; {hint}")


def truncated_weights(trainer_N: Tensor, engine_N: Tensor, cap: float = TIS_CAP) -> Tensor:
    """Truncated importance sampling: min(pi_trainer_old / pi_engine, cap), without a gradient.

    It corrects for an engine whose numbers are not the trainer's.
    Source: Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training"; truncation after Espeholt et al. 2018, "IMPALA" (arXiv:1802.01561), equation 1.

    Args:
        trainer_N: The trainer's log-probabilities before its first update on the batch.
        engine_N: The engine's, of the same tokens.
        cap: The largest weight.
    """
    return torch.exp(trainer_N - engine_N).clamp(max=cap).detach()


def grpo_loss(
    logprobs_BR: Tensor,
    old_BR: Tensor,
    mask_BR: Tensor,
    advantages_BR: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    sequence_level: bool = False,
) -> Tensor:
    """The loss of each token under GRPO, its KL term left out: PPO's with the group's advantages.

    Source: Shao et al. 2024, "DeepSeekMath" (arXiv:2402.03300), equation 3. What distinguishes
    GRPO, DAPO and Dr. GRPO is how these losses are aggregated, see `aggregation.token_weights`.

    Args:
        logprobs_BR: The policy's log-probabilities.
        old_BR: Those of the policy that sampled; on tokens with mask 0 they may be anything.
        mask_BR: 1 on trained tokens.
        advantages_BR: Each token's advantage.
        clip_low: The ratio is clipped below at 1 - this.
        clip_high: The ratio is clipped above at 1 + this.
        sequence_level: GSPO's ratio in place of the tokens' own.

    Returns:
        [B, R] losses; those of tokens with mask 0 mean nothing.
    """
    old_BR = torch.where(mask_BR > 0, old_BR, logprobs_BR.detach())
    if sequence_level:
        ratio_BR = sequence_ratio(logprobs_BR, old_BR, mask_BR)
    else:
        ratio_BR = token_ratio(logprobs_BR, old_BR)
    return ppo_loss(ratio_BR, advantages_BR, clip_low, clip_high)


def weighted_sum(losses_BR: Tensor, mask_BR: Tensor, weights_B: Tensor) -> Tensor:
    """A step's loss, or a micro-batch's part of it: the sum of mask x weight x loss.

    Args:
        losses_BR: Each token's loss.
        mask_BR: 1 on trained tokens.
        weights_B: What a unit of a token's loss adds, see `aggregation.token_weights`.
    """
    return (losses_BR * mask_BR * weights_B.unsqueeze(1)).sum()
