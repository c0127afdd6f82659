"""Half-played groups, and the order in which they go on: the buffer filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeAlias

from retrain.errors import ConfigError, DataError
from retrain.registry import Registry
from retrain.rollout.request import GroupRequest
from retrain.types import Task


@dataclass(frozen=True, slots=True)
class PartialGroup:
    """A group that an iteration left half played.

    Attributes:
        request: What it plays.
        begun: How often the weights had changed when it was begun.
        tokens: How many tokens are written.
        weight_versions: The weights that wrote them, oldest first.
    """

    request: GroupRequest
    begun: int
    tokens: int = 0
    weight_versions: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The group as JSON values; its task by its id."""
        return {
            "index": self.request.index,
            "task": self.request.task.id,
            "visit": self.request.visit,
            "begun": self.begun,
            "tokens": self.tokens,
            "weight_versions": list(self.weight_versions),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any], tasks: Mapping[str, Task]) -> PartialGroup:
        """Read what `row` gave.

        Args:
            row: The JSON values.
            tasks: The tasks of the prompt source by id.

        Raises:
            DataError: The task is no longer there.
        """
        if row["task"] not in tasks:
            raise DataError(
                f"data state: task {row['task']!r} is half played and no longer in the prompt "
                "source; resume with the same one, or start a new run"
            )
        request = GroupRequest(row["index"], tasks[row["task"]], row["visit"])
        return cls(request, row["begun"], row["tokens"], tuple(row["weight_versions"]))


BufferFilter: TypeAlias = Callable[[Sequence[PartialGroup], int], Sequence[PartialGroup]]
"""`(partial groups, most that may go on)` -> those that go on now, in order."""

BUFFER_FILTERS: Registry[BufferFilter] = Registry("buffer filter", "retrain.buffer_filters")


@BUFFER_FILTERS.register("pop_first")
def pop_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """In the order in which they were left."""
    return groups[:count]


@BUFFER_FILTERS.register("oldest_first")
def oldest_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those that were begun first, so that none grows stale."""
    return sorted(groups, key=lambda group: (group.begun, group.request.index))[:count]


@BUFFER_FILTERS.register("longest_partial_first")
def longest_partial_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those with most tokens first, so that least work is at risk."""
    return sorted(groups, key=lambda group: (-group.tokens, group.request.index))[:count]


@BUFFER_FILTERS.register("freshest_weights")
def freshest_weights(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those that were begun last, so that tokens are least off policy."""
    return sorted(groups, key=lambda group: (-group.begun, group.request.index))[:count]


def find_buffer_filter(name: str, key: str = "rollout.buffer_filter") -> BufferFilter:
    """Find a buffer filter.

    Args:
        name: One of those here, an import path `package.module:function`, or an entry point.
        key: Where it stands in the configuration, for messages.

    Raises:
        ConfigError: There is none of that name, or it cannot be called with groups and a count.
    """
    found = BUFFER_FILTERS.get(name)
    if not callable(found):
        raise ConfigError(f"{key}: {name!r} is no function")
    try:
        signature(found).bind((), 0)
    except TypeError as error:
        raise ConfigError(
            f"{key}: {name!r} cannot be called ({error}); a buffer filter takes "
            "(partial groups, most that may go on) and returns those that go on"
        ) from None
    return found


def choose(
    filter_: BufferFilter, groups: Sequence[PartialGroup], count: int
) -> tuple[PartialGroup, ...]:
    """Ask a buffer filter.

    Args:
        filter_: The filter.
        groups: The partial groups.
        count: Most that may go on.

    Raises:
        ConfigError: It raised, or returned something else than at most `count` of the groups.
    """
    name = getattr(filter_, "__name__", type(filter_).__name__)
    key = f"rollout.buffer_filter {name!r}"
    try:
        chosen = tuple(filter_(tuple(groups), count))
    except Exception as error:  # a user's own code, which may raise anything
        raise ConfigError(f"{key}: {type(error).__name__}: {error}") from error
    known = {group.request.index: group for group in groups}
    given = [item for item in chosen if isinstance(item, PartialGroup)]
    indices = [item.request.index for item in given]
    distinct = {index for index in indices if index in known}
    if len(chosen) > count or len(distinct) != len(chosen):
        shown = indices if len(given) == len(chosen) else repr(chosen)[:60]
        raise ConfigError(
            f"{key}: must return at most {count} of the {len(groups)} groups that it was given, "
            f"each once; it returned {shown}"
        )
    return chosen
