"""Rewards: named components, their weighted sum, and the advantages of a group.

The names below are loaded when they are first used, so that importing `retrain` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrain.reward.advantages import ADVANTAGES, group_advantages
    from retrain.reward.calculator import RewardCalculator
    from retrain.reward.components import ComponentKind, OnFailure, RewardComponent, Scored
    from retrain.reward.registry import REWARDS, STEP_REWARDS, VERIFIERS
    from retrain.reward.setup import build_reward_calculator

__all__ = [
    "ADVANTAGES",
    "REWARDS",
    "STEP_REWARDS",
    "VERIFIERS",
    "ComponentKind",
    "OnFailure",
    "RewardCalculator",
    "RewardComponent",
    "Scored",
    "build_reward_calculator",
    "group_advantages",
]

_HOME = {
    "ADVANTAGES": "advantages",
    "REWARDS": "registry",
    "STEP_REWARDS": "registry",
    "VERIFIERS": "registry",
    "ComponentKind": "components",
    "OnFailure": "components",
    "RewardCalculator": "calculator",
    "RewardComponent": "components",
    "Scored": "components",
    "build_reward_calculator": "setup",
    "group_advantages": "advantages",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
