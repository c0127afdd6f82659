"""What the author of an environment says about it, and how its episodes are played."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

import pytest

from retrain.environment.seat import NeverActed
from retrain.errors import RetrainError
from retrain.testing.environment_playing import SCRIPTS, MakeEnvironment, Played, play
from retrain.testing.wording import raised
from retrain.types import Task

T = TypeVar("T")
PlayScript = Callable[..., Played]

SCRIPT_NAMES = tuple(SCRIPTS)


class EnvironmentHooks:
    """What `EnvironmentSuite` needs to know of an environment.

    Attributes:
        task: A task that it can play.
        other_task: Another one.
        answer: The text with which every script ends.
        seed: The seed of the episodes.
        deterministic: Whether one seed and the same actions give the same episode, as they must
            unless it talks to the world outside.
        longest_block: Seconds for which a call may block the event loop.
    """

    task: ClassVar[Task] = Task("kit", "What is 2 + 2?", label="4")
    other_task: ClassVar[Task] = Task("kit-other", "What is 3 + 4?", label="7")
    answer: ClassVar[str] = "The answer is 4."
    seed: ClassVar[int] = 7
    deterministic: ClassVar[bool] = True
    longest_block: ClassVar[float] = 0.5

    def make_environment(self) -> Any:
        """Make an environment for one episode."""
        raise NotImplementedError(f"{type(self).__name__} must define make_environment(self)")

    @pytest.fixture
    def fresh_environment(self) -> MakeEnvironment:
        """`make_environment`; override it where an environment needs other fixtures."""
        return self.make_environment

    @pytest.fixture
    def played(self, fresh_environment: MakeEnvironment) -> PlayScript:
        """Plays a script in a new environment, unless `task=` or `environment=` name others.

        A script that fails skips the test: that is the finding of another one.
        """

        def run(script: str, *, task: Task | None = None, environment: Any = None) -> Played:
            made = fresh_environment() if environment is None else environment
            asked = copy.deepcopy(self.task) if task is None else task
            try:
                return asyncio.run(play(made, script, self.answer, asked, self.seed))
            except NeverActed as idle:
                pytest.skip(str(idle))
            except RetrainError:
                pytest.skip(f"{script!r} does not play: see test_every_answer_can_be_read")

        return run


def finish(script: str, episode: Coroutine[Any, Any, T]) -> T:
    """Run an episode to its end; a failure of the environment fails the test, in its own words.

    An agent that never came to act shows nothing, so the test is skipped.
    """
    __tracebackhide__ = True
    try:
        return asyncio.run(episode)
    except NeverActed as idle:
        pytest.skip(str(idle))
    except RetrainError as error:
        failure = error
    raised(f"the episode {script!r} failed", failure, expected="an episode that plays")
