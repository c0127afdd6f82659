"""The hub's reward functions run through the kit."""

from __future__ import annotations

from typing import Any

from trl_style_environments import told_errors

from retrain.reward import (
    ComponentKind,
    RewardCalculator,
    RewardComponent,
    functions,
    step_functions,
)
from retrain.reward.completions import CompletionsReward
from retrain.testing import RewardSuite
from retrain.testing.tokenizer import kit_renderer


class TestExactMatch(RewardSuite):
    right, needs_label = "4", True

    def make_reward(self) -> Any:
        return functions.exact_match


class TestSubstringMatch(RewardSuite):
    right, needs_label = "It is 4.", True

    def make_reward(self) -> Any:
        return functions.substring_match


class TestNumericMatch(RewardSuite):
    right, wrong, needs_label = "It is 4.0", "4 or 5", True

    def make_reward(self) -> Any:
        return functions.numeric_match


class TestFormatCompliance(RewardSuite):
    right, params = "<answer>4</answer>", {"tags": ["answer"]}

    def make_reward(self) -> Any:
        return functions.format_compliance


class TestToolUse(RewardSuite):
    def make_reward(self) -> Any:
        return functions.tool_use


class TestStepSubstringMatch(RewardSuite):
    right, needs_label = "It is 4.", True

    def make_reward(self) -> Any:
        return step_functions.substring_match


class TestStepNumericMatch(RewardSuite):
    right, needs_label = "It is 4.", True

    def make_reward(self) -> Any:
        return step_functions.numeric_match


class TestStepToolUse(RewardSuite):
    def make_reward(self) -> Any:
        return step_functions.tool_use


class TestFunctionWrittenForTRL(RewardSuite):
    def make_reward(self) -> Any:
        return CompletionsReward(told_errors, kit_renderer().text)


class TestTheWholeCalculator(RewardSuite):
    """The environment's own rewards and two components together."""

    right, needs_label = "It is 4.", True

    def make_reward(self) -> Any:
        return RewardCalculator(
            [
                RewardComponent("environment", ComponentKind.ENVIRONMENT),
                RewardComponent("match", ComponentKind.ROLLOUT, functions.substring_match),
                RewardComponent("tools", ComponentKind.STEP, step_functions.tool_use, weight=0.5),
            ]
        )
