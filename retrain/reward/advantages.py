"""Group advantages: how much better an episode did than the others of its group.

Computed once, in float64, for every backend. Only valid slots count; the others get 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from retrain.registry import Registry

Advantages: TypeAlias = Callable[[Sequence[float]], tuple[float, ...]]
"""Takes the rewards of a group's valid slots, at least two and not all the same."""

ADVANTAGES: Registry[Advantages] = Registry("advantage", "retrain.advantages")

GRPO_EPSILON = 1e-6


def group_advantages(
    name: str, rewards: Sequence[float | None], agents: Sequence[Hashable] = ()
) -> tuple[float, ...]:
    """The advantage of each slot of one group.

    Args:
        name: A name in `ADVANTAGES`, or an import path.
        rewards: [G] combined rewards; None marks an invalid slot.
        agents: [G] whose episode each slot is; those of one agent are compared with each other
            alone. Empty compares all.

    Returns:
        [G] advantages: 0.0 for invalid slots, for fewer than two valid ones, and exactly 0.0
        throughout where all valid rewards are the same.

    Raises:
        ConfigError: No advantage of that name.
        ValueError: A reward is not finite, or the function gives another number of advantages.

    Source of the comparison by agent: the role-conditioned advantage estimation of Liu et al. 2025,
    "SPIRAL" (arXiv:2506.24119); its baseline is a moving average, here it is the group's.
    """
    found = [0.0] * len(rewards)
    for slots in by_agent(agents or [None] * len(rewards)):
        values = _advantages(name, [rewards[slot] for slot in slots])
        for slot, value in zip(slots, values, strict=True):
            found[slot] = value
    return tuple(found)


def by_agent(agents: Sequence[Hashable]) -> list[list[int]]:
    """The slots of each agent, in the order in which the agents first appear.

    Args:
        agents: [G] whose episode each slot is.
    """
    slots: dict[Hashable, list[int]] = {}
    for slot, agent in enumerate(agents):
        slots.setdefault(agent, []).append(slot)
    return list(slots.values())


def _advantages(name: str, rewards: Sequence[float | None]) -> tuple[float, ...]:
    """The advantages of slots that are compared with each other."""
    function = ADVANTAGES.get(name)
    valid = [float(reward) for reward in rewards if reward is not None]
    if not all(map(math.isfinite, valid)):
        raise ValueError(f"advantages {name!r}: a reward is not finite: {valid}")
    if len(valid) < 2 or min(valid) == max(valid):
        return (0.0,) * len(rewards)
    computed = function(valid)
    if len(computed) != len(valid):
        raise ValueError(f"advantages {name!r}: {len(computed)} for {len(valid)} rewards")
    remaining = iter(computed)
    return tuple(0.0 if reward is None else next(remaining) for reward in rewards)


@ADVANTAGES.register("dr_grpo")
def dr_grpo(rewards: Sequence[float]) -> tuple[float, ...]:
    """Reward minus the group's mean.

    Source: Liu et al. 2025, "Understanding R1-Zero-Like Training: A Critical Perspective"
    (arXiv:2503.20783), section 3.2, which drops the division by the standard deviation.
    """
    mean = _mean(rewards)
    return tuple(reward - mean for reward in rewards)


@ADVANTAGES.register("grpo")
def grpo(rewards: Sequence[float]) -> tuple[float, ...]:
    """(reward - mean) / (std + 1e-6), with the sample standard deviation (ddof 1).

    Source: Shao et al. 2024, "DeepSeekMath" (arXiv:2402.03300), section 4.1.2; the ddof and the
    epsilon are those that TRL and slime use.
    """
    deviations = dr_grpo(rewards)
    std = math.hypot(*deviations) / math.sqrt(len(rewards) - 1)
    return tuple(deviation / (std + GRPO_EPSILON) for deviation in deviations)


@ADVANTAGES.register("rloo")
def rloo(rewards: Sequence[float]) -> tuple[float, ...]:
    """Reward minus the mean of the others.

    Equal to n / (n - 1) times the reward minus the group's mean.
    Source: the leave-one-out baseline of Ahmadian et al. 2024, "Back to Basics" (arXiv:2402.14740).
    """
    n = len(rewards)
    return tuple(deviation * n / (n - 1) for deviation in dr_grpo(rewards))


@ADVANTAGES.register("gspo")
def gspo(rewards: Sequence[float]) -> tuple[float, ...]:
    """As `grpo`; GSPO differs in the ratio, which is the backend's.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization" (arXiv:2507.18071), equation 6.
    """
    return grpo(rewards)


def _mean(rewards: Sequence[float]) -> float:
    return math.fsum(reward / len(rewards) for reward in rewards)
