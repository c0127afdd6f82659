"""The test class that a check runs; `prepare` says over which environment."""

from __future__ import annotations

from typing import Any

from retrain.environment.registry import EnvironmentFactory
from retrain.testing.checking.subject import Subject, load_subject
from retrain.testing.environment import EnvironmentSuite


class TestEnvironment(EnvironmentSuite):
    """`EnvironmentSuite` over the environment that `prepare` was given."""

    factory: EnvironmentFactory

    def make_environment(self) -> Any:
        """Make one as its author wrote it, not yet adapted; of several agents, the seat of one."""
        if self.factory.casting is not None:
            return self.factory()
        return self.factory.constructor(**self.factory.arguments)


def prepare(subject: Subject) -> None:
    """Say what is to be tested.

    Raises:
        RetrainError: As `load_subject`.
    """
    TestEnvironment.factory, tasks = load_subject(subject)
    if tasks is not None:
        TestEnvironment.task, TestEnvironment.other_task = tasks
    TestEnvironment.answer = subject.answer
    TestEnvironment.seed = subject.seed
    TestEnvironment.deterministic = subject.deterministic
