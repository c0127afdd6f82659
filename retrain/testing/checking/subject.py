"""What is checked: an environment, named as a configuration names it, and two of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.environment.registry import EnvironmentFactory
    from retrain.types import Task

CONFIGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Subject:
    """An environment, in words that cross to another process.

    Attributes:
        environment: As `environment.type`, or the path of a configuration, which then gives the
            arguments and the tasks too.
        arguments: As `environment.env_specific_config`.
        tasks: A JSONL file; None takes the kit's own tasks.
        answer: The text with which every episode ends.
        seed: The seed of the episodes.
        deterministic: Whether one seed and the same actions must give the same episode.
        agent: Of several agents, whose seat is played, while the others give the answer.
    """

    environment: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tasks: str | None = None
    answer: str = "The answer is 4."
    seed: int = 7
    deterministic: bool = True
    agent: str | None = None


def load_subject(subject: Subject) -> tuple[EnvironmentFactory, tuple[Task, Task] | None]:
    """Resolve what is named.

    Returns:
        What makes the environment, and two tasks; None where the kit's own are to be played.

    Raises:
        ConfigError: There is no such environment, or it cannot be made or called.
        DataError: The tasks cannot be read.
        MissingDependency: It needs a package that is not installed.
    """
    factory, tasks = _found(subject)
    casting = factory.casting
    if casting is None or subject.agent is None:
        return factory, tasks
    return replace(factory, casting=casting.against(subject.answer, subject.agent)), tasks


def agents_of(subject: Subject) -> tuple[str, ...]:
    """The agents that are to be played each by itself; none where the environment has one seat.

    Raises:
        ConfigError, DataError, MissingDependency: As `load_subject`.
    """
    together = _found(subject)[0].together
    return () if together is None else together.seats


def _found(subject: Subject) -> tuple[EnvironmentFactory, tuple[Task, Task] | None]:
    from retrain.environment.registry import make_environment_factory
    from retrain.rollout.sources import jsonl_tasks
    from retrain.rollout.sources_rows import RowKeys

    if subject.environment.endswith(CONFIGS):
        return _configured(Path(subject.environment))
    factory = make_environment_factory(subject.environment, subject.arguments)
    if subject.tasks is None:
        return factory, None
    return factory, _two(jsonl_tasks(Path(subject.tasks), RowKeys()))


def _configured(path: Path) -> tuple[EnvironmentFactory, tuple[Task, Task]]:
    from retrain.compose import make_tasks
    from retrain.config import load_config
    from retrain.environment.registry import make_environment_factory

    config = load_config(path)
    section = config.environment
    factory = make_environment_factory(section.type, section.env_specific_config, section.agents)
    return factory, _two(make_tasks(config))


def _two(tasks: tuple[Task, ...]) -> tuple[Task, Task]:
    """The first two tasks; of a single one, the second is a copy with another id."""
    first = tasks[0]
    return first, tasks[1] if len(tasks) > 1 else replace(first, id=f"{first.id}-again")
