"""How a component's value is recorded over the turns of an episode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from retrain.types import Turn


class Distribution(StrEnum):
    """Which turns a component's value is put down to; the parts sum to the value."""

    OWN = "own"
    LAST = "last"
    UNIFORM = "uniform"
    DISCOUNTED = "discounted"
    TOKENS = "tokens"


def discounted(values: Sequence[float], discount: float) -> tuple[float, ...]:
    """Each turn's value, times the discount for every turn before it.

    Their sum is the discounted return: the sum over t of discount^t times the reward of turn t.
    Source: Sutton and Barto, "Reinforcement Learning" (2018), equation 3.8.

    Args:
        values: [turns] the rewards.
        discount: Between 0 and 1.
    """
    return tuple(discount**turn * value for turn, value in enumerate(values))


def spread(
    value: float, how: Distribution, turns: Sequence[Turn], discount: float
) -> tuple[float, ...]:
    """Spread one value over turns.

    Args:
        value: The value of the episode.
        how: `own` has no turns of its own here, and is taken for `last`.
        turns: The turns of the episode, at least one.
        discount: For `discounted`: a turn's share is this times that of the turn after it.

    Returns:
        [turns] parts that sum to `value`, but for rounding.
    """
    shares = _shares(how, turns, discount)
    whole = math.fsum(shares)
    return tuple(value * share / whole for share in shares)


def _shares(how: Distribution, turns: Sequence[Turn], discount: float) -> list[float]:
    count = len(turns)
    if how is Distribution.UNIFORM:
        return [1.0] * count
    if how is Distribution.DISCOUNTED:
        return [discount ** (count - 1 - turn) for turn in range(count)]
    sampled = [float(len(turn.output_ids)) for turn in turns]
    if how is Distribution.TOKENS and any(sampled):
        return sampled
    return [0.0] * (count - 1) + [1.0]
