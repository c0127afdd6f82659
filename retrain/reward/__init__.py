"""Rewards: named components, their weighted sum, and the advantages of a group.

The names below are loaded when they are first used, so that importing `retrain` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrain.reward.advantages import ADVANTAGES, group_advantages
    from retrain.reward.calculator import RewardCalculator
    from retrain.reward.combination import COMBINATIONS
    from retrain.reward.components import ComponentKind, OnFailure, RewardComponent, Scored
    from retrain.reward.distribution import Distribution
    from retrain.reward.normalisation import Normalisation, Normalising
    from retrain.reward.registry import REWARDS, STEP_REWARDS, VERIFIERS
    from retrain.reward.setup import build_reward_calculator
    from retrain.reward.taking import batch_reward, group_reward

__all__ = [
    "ADVANTAGES",
    "COMBINATIONS",
    "REWARDS",
    "STEP_REWARDS",
    "VERIFIERS",
    "ComponentKind",
    "Distribution",
    "Normalisation",
    "Normalising",
    "OnFailure",
    "RewardCalculator",
    "RewardComponent",
    "Scored",
    "batch_reward",
    "build_reward_calculator",
    "group_advantages",
    "group_reward",
]

_HOME = {
    "ADVANTAGES": "advantages",
    "COMBINATIONS": "combination",
    "REWARDS": "registry",
    "STEP_REWARDS": "registry",
    "VERIFIERS": "registry",
    "ComponentKind": "components",
    "Distribution": "distribution",
    "Normalisation": "normalisation",
    "Normalising": "normalisation",
    "OnFailure": "components",
    "RewardCalculator": "calculator",
    "RewardComponent": "components",
    "Scored": "components",
    "batch_reward": "taking",
    "build_reward_calculator": "setup",
    "group_advantages": "advantages",
    "group_reward": "taking",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
