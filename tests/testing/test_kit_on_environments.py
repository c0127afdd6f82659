"""retrain's own environments, and adapted ones, run through the kit."""

from __future__ import annotations

from typing import Any

import pytest
from trl_style_environments import Account, Library

from retrain.environment import ToolEnvironment, adapt, make_environment_factory, tool
from retrain.environment.calculator import CalculatorEnvironment
from retrain.testing import EnvironmentSuite
from retrain.testing.canned.cases import BY_NAME
from retrain.testing.canned.world import CannedWorld
from retrain.types import Action, Message, Task


class TestCalculator(EnvironmentSuite):
    def make_environment(self) -> Any:
        return CalculatorEnvironment()


class Dictionary(ToolEnvironment):
    @tool
    def lookup(self, word: str, limit: int = 3) -> str:
        """Look a word up.

        Args:
            word: The word.
            limit: Most meanings.
        """
        return f"{word} has {limit} meanings"

    async def score(self, action: Action) -> float:
        return float("4" in action.text)


class TestToolEnvironment(EnvironmentSuite):
    def make_environment(self) -> Any:
        return Dictionary(max_turns=3, system_prompt="Look words up.")


class Plain:
    """Synchronous, with Gymnasium's tuples and text: nothing of retrain's."""

    def reset(self, task: Any) -> str:
        self.turn = 0
        return f"{task.prompt} Think."

    def step(self, action: Any) -> tuple[Any, ...]:
        self.turn += 1
        return "Go on.", 0.5, self.turn == 2, False, {"turn": self.turn}


class TestAdaptedSynchronousClass(EnvironmentSuite):
    def make_environment(self) -> Any:
        return adapt(Plain())


class TestPlainClass(EnvironmentSuite):
    def make_environment(self) -> Any:
        return Plain()


class TestTRLStyleAccount(EnvironmentSuite):
    task = Task("account", (Message("user", "Save."),), metadata={"start": 5, "goal": 9})
    other_task = Task("other", (Message("user", "Spend."),), metadata={"start": 7, "goal": 2})

    @pytest.fixture
    def fresh_environment(self) -> Any:
        return make_environment_factory(f"{Account.__module__}:Account")


class TestTRLStyleLibrary(EnvironmentSuite):
    @pytest.fixture
    def fresh_environment(self) -> Any:
        return make_environment_factory(f"{Library.__module__}:Library")


class TestCannedWorld(EnvironmentSuite):
    task = Task("tools", BY_NAME["tools"].prompt)
    other_task = Task("parallel_tool_calls", BY_NAME["parallel_tool_calls"].prompt)

    def make_environment(self) -> Any:
        return CannedWorld()


class TestRewritingWorld(EnvironmentSuite):
    task = Task("rewriting", BY_NAME["rewriting"].prompt)
    other_task = Task("rewriting_and_failing", BY_NAME["rewriting_and_failing"].prompt)

    def make_environment(self) -> Any:
        return CannedWorld(rewrites=True)
