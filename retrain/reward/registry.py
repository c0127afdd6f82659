"""The names of reward functions, step rewards and verifiers, and the shapes that they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from retrain.registry import Registry
from retrain.reward.hub.catalogue import MODELS, SERVICE_NAMES
from retrain.reward.hub.catalogue import NAMES as HUB_NAMES

RolloutReward: TypeAlias = Callable[..., Any]
"""`(trajectory, **params) -> float | None`, or `(trajectories, **params)` -> a list of them."""

StepReward: TypeAlias = Callable[..., Any]
"""`(turn, trajectory, **params) -> float`."""

Verifier: TypeAlias = Callable[..., Any]
"""`(trajectory) -> bool`: False replaces a component by its penalty."""

REWARDS: Registry[RolloutReward] = Registry("rollout reward", "retrain.rewards")
STEP_REWARDS: Registry[StepReward] = Registry("step reward", "retrain.step_rewards")
VERIFIERS: Registry[Verifier] = Registry("verifier", "retrain.verifiers")

for _name in ("exact_match", "substring_match", "numeric_match", "format_compliance", "tool_use"):
    REWARDS.add_lazy(_name, f"retrain.reward.functions:{_name}")
    STEP_REWARDS.add_lazy(_name, f"retrain.reward.step_functions:{_name}")
for _name in (*HUB_NAMES, *SERVICE_NAMES):
    REWARDS.add_lazy(_name, f"retrain.reward.hub.episodes:{_name}")
for _name, _target in MODELS.items():
    REWARDS.add_lazy(_name, f"retrain.reward.hub.{_target}")
for _name in ("completed", "no_parse_error", "used_tool"):
    VERIFIERS.add_lazy(_name, f"retrain.reward.verifiers:{_name}")
