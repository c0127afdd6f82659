"""`type: environment`: the environment's class offers its own tasks."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from retrain.environment.registry import ENVIRONMENTS
from retrain.errors import ConfigError, DataError, RetrainError
from retrain.rollout.sources_rows import SECTION, RowKeys, distinct, row_task
from retrain.signatures import check_config, signature_of
from retrain.types import Task

OfferedTask: TypeAlias = Task | Mapping[str, Any] | str
"""A task, a row with `prompt` (and `id`, `label`, metadata), or a plain prompt."""

MOST = 1_000_000
"""More tasks than these are taken for a generator that does not end."""


class OffersTasks(Protocol):
    """An environment class that makes its own tasks."""

    @classmethod
    def tasks(cls, *, seed: int, **source_config: Any) -> Iterable[OfferedTask]:
        """Make the tasks of an epoch.

        The same arguments must give the same tasks, in whatever process: several processes make
        them for themselves, and a resumed run makes them again.

        Args:
            seed: Where `source_config` names none: one that follows from the run's seed, another
                one for the evaluation. A method that makes nothing random need not take it.
            **source_config: `prompt_source.source_config`, checked against the method's own
                arguments and their types.
        """
        ...


def environment_tasks(
    environment: str, source_config: Mapping[str, Any], seed: int
) -> tuple[Task, ...]:
    """Ask an environment for its tasks.

    Args:
        environment: `environment.type`.
        source_config: What its `tasks` is called with.
        seed: Its seed, unless `source_config` names one.

    Raises:
        ConfigError: It offers none, or takes other arguments.
        DataError: It raised, or a task cannot be used.
    """
    offer = _offer(environment)
    arguments = check_config(offer, source_config, SECTION, skip=_left_out(source_config))
    if "seed" not in arguments and _takes_seed(offer):
        arguments["seed"] = seed
    where = f"environment.type {environment!r}: tasks()"
    tasks = distinct(
        _task(f"{where}[{number}]", item, f"task-{number}")
        for number, item in enumerate(_items(where, offer, arguments))
    )
    if not tasks:
        raise DataError(f"{where}: gives no task; check {SECTION}")
    return tasks


def _offer(environment: str) -> Callable[..., Any]:
    constructor = ENVIRONMENTS.get(environment)
    offer: Callable[..., Any] | None = getattr(constructor, "tasks", None)
    if not callable(offer):
        raise ConfigError(
            f"prompt_source.type: environment: {environment!r} offers no tasks; give it a class "
            "method tasks(cls, *, seed, …) that returns them, or name another prompt source"
        )
    if inspect.isclass(constructor) and inspect.isfunction(
        inspect.getattr_static(constructor, "tasks")
    ):
        raise ConfigError(
            f"prompt_source.type: environment: {environment!r}: tasks is asked of the class, and "
            "needs no environment; mark it with @classmethod"
        )
    return offer


def _left_out(source_config: Mapping[str, Any]) -> tuple[str, ...]:
    """A seed that the configuration does not name is given here, so it is not missing."""
    return () if "seed" in source_config else ("seed",)


def _takes_seed(offer: Callable[..., Any]) -> bool:
    signature = signature_of(offer)
    return signature.open or any(argument.name == "seed" for argument in signature.arguments)


def _items(where: str, offer: Callable[..., Any], arguments: Mapping[str, Any]) -> Iterator[Any]:
    count = 0
    try:
        offered = offer(**arguments)
        if isinstance(offered, str | Mapping) or not isinstance(offered, Iterable):
            raise DataError(
                f"{where}: expected a list of tasks, or a generator, got {offered!r:.60}"
            )
        for item in offered:
            yield item
            count += 1
            if count > MOST:
                raise DataError(
                    f"{where}: gives more than {MOST:,} tasks; an epoch ends, so end it, for "
                    "example after a count that it takes as an argument"
                )
    except RetrainError:
        raise
    except Exception as error:  # the environment's own code, which may raise anything
        raise DataError(f"{where}: {type(error).__name__}: {error}") from error


def _task(where: str, item: Any, default_id: str) -> Task:
    task = item if isinstance(item, Task) else row_task(where, item, RowKeys(), default_id)
    if not isinstance(task.id, str):
        raise DataError(f"{where}: the id must be text, got {task.id!r:.60}")
    try:
        json.dumps([task.label, dict(task.metadata)])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: label and metadata must be JSON values, since they cross processes: {error}"
        ) from error
    return task
