"""What gradient each token's logprob must get, by the papers' formulas, beside what it got."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fuzz_forward import REFERENCE, logprob

from retrain.config import RunConfig
from retrain.parity import LossReading, LossRow
from retrain.parity.rows import Place

_TOLERANCE = 3e-4
"""Relative to the terms: a ratio of e^60 in float32 is 4e-6 off, a mean over 900 of them more."""

_CAP = 2.0


def slope_faults(
    config: RunConfig, reading: LossReading, slopes: Mapping[Place, tuple[float, ...]]
) -> Iterator[str]:
    """Rows whose gradient is not what their loss's formula says.

    Args:
        config: Names the loss.
        reading: What entered it.
        slopes: The gradient of the optimizer step's loss by the logprobs of each row's response.
    """
    for row in reading.rows:
        given = slopes.get(row.place)
        where = f"{reading.backend}, sample {row.index}, part {row.part}"
        if given is None and row.trained:
            yield f"{where}: no gradient"
        elif given is not None:
            at = next(_wrong(given, _Expected(config, row)), None)
            if at is not None:
                yield f"{where}: gradient, token {at}"


def _wrong(given: tuple[float, ...], expected: _Expected) -> Iterator[int]:
    for at, (found, trained) in enumerate(zip(given, expected.row.mask, strict=True)):
        policy, divergence = expected.terms(at) if trained else (0.0, 0.0)
        if policy is None:
            continue
        bound = _TOLERANCE * (abs(policy) + abs(divergence)) + 1e-30
        if not abs(found - policy - divergence) <= bound:
            yield at


class _Expected:
    """The terms of one row's gradient."""

    def __init__(self, config: RunConfig, row: LossRow) -> None:
        hyper = config.algorithm.hyperparameters
        self.row = row
        self._hyper = hyper
        self._start = len(row.tokens) - len(row.mask)
        rollouts = hyper.rollout_batch_size * hyper.n_samples_per_prompt
        first = row.step - row.step % (rollouts // hyper.global_batch_size)
        tis = hyper.importance_correction == "tis"
        trained = [at for at, flag in enumerate(row.mask) if flag]
        self._new = {at: self._said(at, row.step + 1) for at in trained}
        self._old = {at: self._said(at, first + 1) if tis else row.logprobs[at] for at in trained}
        self._correction = {
            at: min(math.exp(self._old[at] - row.logprobs[at]), _CAP) if tis else 1.0
            for at in trained
        }
        self._ratio = {at: math.exp(self._new[at] - self._old[at]) for at in trained}
        if config.algorithm.name == "gspo" and trained:
            together = math.exp(
                math.fsum(self._new[a] - self._old[a] for a in trained) / len(trained)
            )
            self._ratio = dict.fromkeys(trained, together)
            mean = math.fsum(self._correction.values()) / len(trained)
            self._correction = dict.fromkeys(trained, mean)

    def terms(self, at: int) -> tuple[float | None, float]:
        """The policy's part and the KL divergence's; None where the ratio stands on a bound.

        The surrogate is PPO's (arXiv:1707.06347, equation 7), the ratio of a sequence GSPO's
        (arXiv:2507.18071, equation 7): by the logprob of one of its tokens it grows by a share,
        and the surrogates of all of them grow. The estimators are Schulman's (2020).
        """
        hyper, ratio = self._hyper, self._ratio[at]
        low, high = 1 - hyper.clip_eps_low, 1 + hyper.clip_eps_high
        if min(abs(ratio - low), abs(ratio - high)) < 1e-4:
            return None, 0.0
        advantage, weight = self.row.advantage, self.row.weights[at]
        clipped = (ratio < low and advantage < 0) or (ratio > high and advantage > 0)
        policy = 0.0 if clipped else -weight * advantage * self._correction[at] * ratio
        if not hyper.kl_coef:
            return policy, 0.0
        apart = self._said(at, REFERENCE) - self._new[at]
        by_estimator = {"k1": 1.0, "k2": -apart, "k3": 1 - math.exp(apart)}
        return policy, weight * hyper.kl_coef * by_estimator[hyper.kl_estimator]

    def _said(self, at: int, weights: int) -> float:
        before, token = self.row.tokens[self._start + at - 1 : self._start + at + 1]
        return float(logprob(before, token, weights, self._hyper.temperature))
