"""Values and gradients of the losses are those of TRL's and slime's own code."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch
from trl_loss import trl_loss

from backends.torch.advantages import compute_advantages
from backends.torch.aggregation import Aggregation, token_weights
from backends.torch.losses import (
    grpo_loss,
    is_clipped,
    kl_divergence,
    sequence_ratio,
    sft_loss,
    truncated_weights,
    weighted_sum,
)
from retrain.errors import ConfigError

ROWS, WIDTH, LONGEST = 6, 9, 12
LOSS_TYPES: dict[Aggregation, str] = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}


class Random:
    """A batch of random numbers in float64, one row of it masked throughout."""

    def __init__(self, seed: int) -> None:
        rng = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        self.mask = torch.randint(0, 2, (ROWS, WIDTH), generator=rng).double()
        self.mask[2] = 0
        self.logprobs = (-normal(ROWS, WIDTH).abs()).requires_grad_()
        self.old = self.logprobs.detach() + 0.3 * normal(ROWS, WIDTH)
        self.reference = self.logprobs.detach() + 0.3 * normal(ROWS, WIDTH)
        self.advantages = normal(ROWS)

    def weights(self, aggregation: Aggregation) -> torch.Tensor:
        trained = [int(count) for count in self.mask.sum(1)]
        found = token_weights(trained, range(ROWS), aggregation, LONGEST)
        return torch.tensor(found, dtype=torch.float64)

    @property
    def for_trl(self) -> dict[str, torch.Tensor]:
        return {
            "completion_ids": torch.zeros(ROWS, WIDTH, dtype=torch.long),
            "completion_mask": torch.ones(ROWS, WIDTH, dtype=torch.double),
            "tool_mask": self.mask,
            "advantages": self.advantages,
            "old_per_token_logps": self.old,
            "ref_per_token_logps": self.reference,
        }

    def gradient(self, loss: torch.Tensor) -> torch.Tensor:
        (found,) = torch.autograd.grad(loss, self.logprobs)
        return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beta", [0.0, 0.07])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("aggregation", LOSS_TYPES)
def test_grpo_is_trls(aggregation: Aggregation, level: str, beta: float, seed: int) -> None:
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    batch = Random(seed)
    low, high = 0.1, 0.28
    losses = grpo_loss(
        batch.logprobs,
        batch.old,
        batch.mask,
        batch.advantages.unsqueeze(1),
        clip_low=low,
        clip_high=high,
        sequence_level=level == "sequence",
    )
    losses = losses + beta * kl_divergence(batch.logprobs, batch.reference, "k3")
    ours = weighted_sum(losses, batch.mask, batch.weights(aggregation))
    theirs = trl_loss(
        batch.logprobs,
        batch.for_trl,
        loss_type=LOSS_TYPES[aggregation],
        level=level,
        beta=beta,
        clip=(low, high),
        longest=LONGEST,
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    torch.testing.assert_close(batch.gradient(ours), batch.gradient(theirs), rtol=1e-12, atol=1e-15)


def test_clipped_tokens_have_no_gradient() -> None:
    batch = Random(0)
    advantages = batch.advantages.unsqueeze(1)
    everywhere = torch.ones_like(batch.mask)
    losses = grpo_loss(batch.logprobs, batch.old, everywhere, advantages, clip_high=0.3)
    gradient = batch.gradient(losses.sum())
    clipped = is_clipped(torch.exp(batch.logprobs - batch.old), advantages, 0.2, 0.3)
    assert 0 < clipped.sum() < clipped.numel()
    assert torch.equal(gradient == 0, clipped)


def test_kl_estimators_are_schulmans() -> None:
    """In the mean over the policy's own samples k1 and k3 are the KL divergence."""
    policy = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    reference = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    exact = (policy * (policy / reference).log()).sum()
    for estimator in ("k1", "k3"):
        found = kl_divergence(policy.log(), reference.log(), estimator)  # type: ignore[arg-type]
        torch.testing.assert_close((policy * found).sum(), exact)
    k2 = kl_divergence(policy.log(), reference.log(), "k2")
    torch.testing.assert_close(k2, (policy / reference).log().square() / 2)
    with pytest.raises(ConfigError, match=r"no estimator 'k4'; did you mean"):
        kl_divergence(policy, reference, "k4")  # type: ignore[arg-type]


def test_truncated_weights_carry_no_gradient() -> None:
    trainer = torch.tensor([-1.0, -1.0, -3.0], requires_grad=True)
    weights = truncated_weights(trainer, torch.tensor([-1.0, -4.0, -1.0]))
    assert weights.tolist() == pytest.approx([1.0, 2.0, math.exp(-2)])
    assert not weights.requires_grad


def test_sft_is_cross_entropy() -> None:
    logits = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(1)).double()
    labels = torch.tensor([[1, 4, -100, 10, -100], [0, -100, -100, -100, 3]])
    mask = (labels != -100).double()
    chosen = logits.log_softmax(-1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    weights = token_weights([int(n) for n in mask.sum(1)], [0, 1], "token")
    ours = weighted_sum(sft_loss(chosen), mask, torch.tensor(weights, dtype=torch.float64))
    theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(ours, theirs)


def test_segments_of_one_rollout_share_its_weight() -> None:
    assert token_weights([3, 1, 4], [7, 7, 8], "sequence") == [1 / 8, 1 / 8, 1 / 8]
    assert token_weights([3, 1, 4], [7, 7, 8], "constant", 10) == [1 / 20] * 3
    assert token_weights([0, 0], [0, 1], "token") == [1.0, 1.0], "nothing trained divides by 1"
    with pytest.raises(ConfigError, match=r"no aggregation 'tokens'; did you mean 'token'"):
        token_weights([1], [0], "tokens")  # type: ignore[arg-type]


def test_advantages_are_rewards_less_a_baseline() -> None:
    assert compute_advantages([1.0, None, 0.0], baseline=0.5) == (0.5, 0.0, -0.5)
    assert compute_advantages([1.0, 0.0, None, 0.5], "mean") == (0.5, -0.5, 0.0, 0.0)
    assert compute_advantages([1.0, 0.0], "leave_one_out") == (1.0, -1.0)
    for baseline in ("mean", "leave_one_out"):
        assert compute_advantages([1.0], baseline) == (0.0,), "nobody to compare it with"
    with pytest.raises(ConfigError, match=r"no baseline 'meen'; did you mean 'mean'"):
        compute_advantages([1.0], "meen")  # type: ignore[arg-type]


@pytest.mark.slime
class TestSlime:
    """Against slime's own functions, compiled away (`torch.compile` changes no meaning)."""

    @pytest.fixture
    def theirs(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        if not os.environ.get("RETRAIN_SLIME"):
            pytest.skip("set RETRAIN_SLIME to a checkout of slime")
        monkeypatch.syspath_prepend(os.environ["RETRAIN_SLIME"])
        from slime.utils import ppo_utils

        with torch.compiler.set_stance("force_eager"):
            yield ppo_utils

    def test_the_clipped_surrogate_is_slimes(self, theirs: Any) -> None:
        batch = Random(5)
        advantages = batch.advantages.unsqueeze(1).expand_as(batch.logprobs)
        everywhere = torch.ones_like(batch.mask)
        ours = grpo_loss(
            batch.logprobs, batch.old, everywhere, advantages, clip_low=0.1, clip_high=0.3
        )
        losses, clipped = theirs.compute_policy_loss(
            batch.old - batch.logprobs, advantages, 0.1, 0.3
        )
        torch.testing.assert_close(ours, losses)
        torch.testing.assert_close(batch.gradient(ours.sum()), batch.gradient(losses.sum()))
        ratio = torch.exp(batch.logprobs - batch.old)
        assert torch.equal(is_clipped(ratio, advantages, 0.1, 0.3), clipped.bool())

    @pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
    def test_the_kl_estimators_are_slimes(self, theirs: Any, estimator: Any) -> None:
        batch = Random(6)
        ours = kl_divergence(batch.logprobs.float(), batch.reference.float(), estimator)
        found = theirs.compute_approx_kl(batch.logprobs, batch.reference, estimator)
        torch.testing.assert_close(ours, found)
        torch.testing.assert_close(batch.gradient(ours.sum()), batch.gradient(found.sum()))

    def test_the_sequence_ratio_is_slimes(self, theirs: Any) -> None:
        batch = Random(7)
        rows = [list(tensor) for tensor in (batch.logprobs, batch.old, batch.mask)]
        log_ratio = -theirs.compute_gspo_kl(rows[0], rows[1], rows[0], rows[2])
        ours = sequence_ratio(batch.logprobs, batch.old, batch.mask).flatten()
        torch.testing.assert_close(ours, log_ratio.exp())
        torch.testing.assert_close(
            batch.gradient(ours.sum()), batch.gradient(log_ratio.exp().sum())
        )
