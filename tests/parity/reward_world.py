"""Rewards of every kind, for the parity of components, combinations and normalisation."""

from __future__ import annotations

from typing import Any

from retrain.types import Trajectory, Turn


def letters(turn: Turn, trajectory: Trajectory) -> float:
    """The letters of a turn, in tens."""
    return sum(map(str.isalpha, turn.action.text)) / 10


def flaky(trajectory: Trajectory) -> float | None:
    """Fails or does not apply, by the episode's seed."""
    at = trajectory.seed.sample_index
    if at == 3:
        raise ValueError("the third of a group fails")
    return None if at == 2 else len(trajectory.turns) / 3


def by_tokens(completion_ids: Any, **columns: Any) -> list[float]:
    """TRL's kind."""
    return [len(ids) / 50 for ids in completion_ids]


async def by_mask(args: Any, sample: Any, **kwargs: Any) -> dict[str, float]:
    """slime's kind."""
    return {"score": sum(sample.loss_mask) / args.rollout_max_response_len}


def best(group: list[Trajectory]) -> list[float]:
    """The whole group's kind."""
    most = max(len(t.turns) for t in group)
    return [float(len(t.turns) == most) for t in group]


SETUP = {
    "combination": "mean",
    "normalisation": "running",
    "clip": [-3.0, 3.0],
    "environment_reward_discount": 0.9,
    "step_reward_configs": {
        "reward_world:letters": {"discount": 0.5, "distribution": "own", "normalisation": "group"}
    },
    "rollout_reward_configs": {
        "reward_world:flaky": {"on_failure": "value", "value": -1.0, "weight": 0.5},
        "reward_world:by_tokens": {"normalisation": "running", "weight": 2.0},
        "reward_world:by_mask": {"reward_key": "score", "normalisation": "rank"},
        "reward_world:best": {"normalisation": "clip", "clip": [0.25, 0.75]},
    },
}
"""Every kind of component, a failing one, and every normalisation."""
