"""`compute_advantages`: rewards less a baseline, for people who call the loops themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from retrain.errors import ConfigError, nearest
from retrain.reward.advantages import group_advantages

Baseline: TypeAlias = float | Literal["mean", "leave_one_out"]

_OF_A_GROUP = {"mean": "dr_grpo", "leave_one_out": "rloo"}


def compute_advantages(
    rewards: Sequence[float | None], baseline: Baseline = 0.0
) -> tuple[float, ...]:
    """How much better than a baseline each episode did.

    A number is taken from every reward (REINFORCE with a constant baseline, Williams 1992). The
    other two are those of one group: "mean" is Dr. GRPO's (arXiv:2503.20783), "leave_one_out"
    RLOO's (arXiv:2402.14740). The configured algorithms have theirs in
    `retrain.reward.advantages`.

    Args:
        rewards: [G] rewards; None where an episode does not count.
        baseline: What to subtract.

    Returns:
        [G] advantages, 0.0 where the reward is None.

    Raises:
        ConfigError: There is no such baseline.
        ValueError: A reward is not finite (of a group's baselines).
    """
    if isinstance(baseline, str):
        if baseline not in _OF_A_GROUP:
            hint = nearest(baseline, _OF_A_GROUP)
            raise ConfigError(f"baseline: no baseline {baseline!r}; {hint}, or give a number")
        return group_advantages(_OF_A_GROUP[baseline], rewards)
    return tuple(0.0 if reward is None else reward - baseline for reward in rewards)
