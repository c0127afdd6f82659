"""From the `reward_setup` section of a configuration to a calculator."""

from __future__ import annotations

from typing import Any

import pytest
from reward_episodes import make_episode

from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward import OnFailure, RewardCalculator, build_reward_calculator
from retrain.types import Action, ToolCall, Trajectory, Turn

HERE = __name__


def length(trajectory: Trajectory, *, per: int = 1, cap: float | None = None) -> float:
    value = len(trajectory.response_text) / per
    return value if cap is None else min(value, cap)


def substring_match(trajectory: Trajectory) -> float:
    return 0.5


def environment(turn: Turn, trajectory: Trajectory) -> float:
    return 1.0


def no_argument() -> float:
    return 0.0


def long_enough(trajectory: Trajectory) -> bool:
    return len(trajectory.response_text) > 2


NOT_A_FUNCTION = 3


def build(section: dict[str, Any], **options: Any) -> RewardCalculator:
    return build_reward_calculator(RewardSetupConfig.model_validate(section), **options)


async def test_an_empty_section_rewards_what_the_environment_does() -> None:
    (scored,) = await build({}).score([make_episode("a", "b", rewards=[0.25, 0.5])])

    assert scored.total == 0.75


async def test_a_whole_section_scores_an_episode() -> None:
    calculator = build(
        {
            "environment_reward_weight": 0.5,
            "step_reward_configs": {"substring_match": {"params": {"ignore_case": True}}},
            "rollout_reward_configs": {
                "numeric_match": {"weight": 2.0, "verifiers": ["used_tool"]},
                f"{HERE}:length": {
                    "params": {"per": 2},
                    "verifiers": [f"{HERE}:long_enough"],
                    "verifier_penalty": -1.0,
                    "on_failure": "value",
                    "value": 0.0,
                },
            },
        },
        timeout=7.0,
    )
    call = Action(tool_calls=(ToolCall("f"),))
    trajectory = make_episode(call, "it is 42", label="42", rewards=[1.0, 1.0])

    (scored,) = await calculator.score([trajectory])

    assert scored.components == {
        "environment": 2.0,
        "substring_match": 1.0,
        "numeric_match": 1.0,
        "length": 4.0,
    }
    assert scored.total == 0.5 * 2 + 1 + 2 * 1 + 4
    assert [c.timeout for c in calculator.components[1:]] == [7.0] * 3
    assert calculator.components[-1].on_failure is OnFailure.VALUE


def test_names_that_would_be_the_same_tell_where_they_stand() -> None:
    calculator = build(
        {
            "step_reward_configs": {"substring_match": {}, f"{HERE}:environment": {}},
            "rollout_reward_configs": {
                "substring_match": {},
                f"{HERE}:substring_match": {},
                "tool_use": {},
            },
        }
    )

    assert [component.name for component in calculator.components] == [
        "environment",
        "step/substring_match",
        "step/environment",
        "rollout/substring_match",
        f"rollout/{HERE}:substring_match",
        "tool_use",
    ]


ROLLOUT = r"reward_setup\.rollout_reward_configs\."


@pytest.mark.parametrize(
    ("section", "name", "config", "said"),
    [
        (
            "rollout",
            "numeric_match",
            {"params": {"tolerence": 1.0}},
            ROLLOUT + r"numeric_match\.params\.tolerence: .*did you mean 'tolerance'",
        ),
        (
            "rollout",
            "numeric_match",
            {"params": {"tolerance": "1"}},
            ROLLOUT + r"numeric_match\.params\.tolerance: .*number, got '1'",
        ),
        ("rollout", f"{HERE}:length", {"params": {"trajectory": 1}}, r"takes no 'trajectory'"),
        ("rollout", "exact_macth", {}, ROLLOUT + r"exact_macth: .*did you mean 'exact_match'"),
        ("rollout", f"{HERE}:no_argument", {}, r"must take \(trajectory\) first"),
        ("step", f"{HERE}:length", {}, r"step_reward_configs\..*must take \(turn, trajectory\)"),
        ("rollout", f"{HERE}:environment", {}, "put it under step_reward_configs"),
        ("rollout", f"{HERE}:NOT_A_FUNCTION", {}, "is not a function"),
        (
            "rollout",
            "exact_match",
            {"verifiers": ["complete"]},
            ROLLOUT + r"exact_match\.verifiers: .*did you mean 'completed'",
        ),
        (
            "rollout",
            "exact_match",
            {"verifiers": [f"{HERE}:environment"]},
            r"verifiers: .*must take \(trajectory\)",
        ),
    ],
)
def test_what_cannot_be_built_is_named_by_its_key(
    section: str, name: str, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        build({f"{section}_reward_configs": {name: config}})


def test_a_setup_that_rewards_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing is rewarded"):
        build({"environment_reward_weight": 0.0})
