"""Whether two trainings moved the same weights the same way."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, cat

Weights = Mapping[str, Tensor]


def assert_same_training(before: Weights, one: Weights, other: Weights) -> None:
    """They lie within 0.1 % of the way that training went.

    Not bit for bit: which episodes share a forward pass depends on the clock, and so does the last
    bit of their logprobs.
    """
    moved = cat([(one[name] - before[name]).flatten() for name in before]).norm()
    apart = cat([(one[name] - other[name]).flatten() for name in before]).norm()
    assert moved > 1e-3
    assert apart < 1e-3 * moved
