"""Half-played groups, and the order in which they go on: the buffer filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from retrain.errors import ConfigError
from retrain.registry import Registry
from retrain.rollout.request import GroupRequest


@dataclass(frozen=True, slots=True)
class PartialGroup:
    """A group that an iteration left half played.

    Attributes:
        request: What it plays.
        begun: The iteration in which it was begun.
        tokens: How many tokens are written.
        weight_versions: The weights that wrote them, oldest first.
    """

    request: GroupRequest
    begun: int
    tokens: int = 0
    weight_versions: tuple[str, ...] = ()


BufferFilter: TypeAlias = Callable[[Sequence[PartialGroup], int], Sequence[PartialGroup]]
"""`(partial groups, most that may go on)` -> those that go on now, in order."""

BUFFER_FILTERS: Registry[BufferFilter] = Registry("buffer filter", "retrain.buffer_filters")


@BUFFER_FILTERS.register("pop_first")
def pop_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """In the order in which they were left."""
    return groups[:count]


@BUFFER_FILTERS.register("oldest_first")
def oldest_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those of the earliest iteration first, so that none grows stale."""
    return sorted(groups, key=lambda group: (group.begun, group.request.index))[:count]


@BUFFER_FILTERS.register("longest_partial_first")
def longest_partial_first(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those with most tokens first, so that least work is at risk."""
    return sorted(groups, key=lambda group: (-group.tokens, group.request.index))[:count]


@BUFFER_FILTERS.register("freshest_weights")
def freshest_weights(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    """Those of the latest iteration first, so that tokens are least off policy."""
    return sorted(groups, key=lambda group: (-group.begun, group.request.index))[:count]


def choose(
    filter_: BufferFilter, groups: Sequence[PartialGroup], count: int
) -> tuple[PartialGroup, ...]:
    """Ask a buffer filter.

    Args:
        filter_: The filter.
        groups: The partial groups.
        count: Most that may go on.

    Raises:
        ConfigError: It returned too many, one twice, or one that is not there.
    """
    chosen = tuple(filter_(groups, count))
    known = {group.request.index for group in groups}
    indices = [group.request.index for group in chosen]
    if len(indices) > count or len(set(indices)) != len(indices) or not set(indices) <= known:
        name = getattr(filter_, "__name__", type(filter_).__name__)
        raise ConfigError(
            f"rollout.buffer_filter {name!r}: must return at most {count} of the {len(groups)} "
            f"groups that it was given, each once; it returned groups {indices}"
        )
    return chosen
