"""Which draws of a run have been made, also where several processes share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrain.errors import DataError

VERSION = 2
"""The version of the state of a `DataBuffer`."""


@dataclass(slots=True)
class Position:
    """The draws that a process has made, by their number in the run.

    Attributes:
        next: The next one, unless it is among `ahead`.
        ahead: Later ones that have been made already, by processes that were ahead.
    """

    next: int
    ahead: set[int] = field(default_factory=set)

    def advance(self, ranks: int) -> int:
        """Make the next draw and give its number; the process has every `ranks`-th one."""
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += ranks
        index = self.next
        self.next += ranks
        return index

    def count(self, rank: int, ranks: int) -> int:
        """How many draws have been made."""
        return (self.next - rank) // ranks + len(self.ahead)

    def row(self) -> dict[str, Any]:
        """The position as JSON values."""
        return {"next": self.next, "ahead": sorted(self.ahead)}


def read_position(state: Mapping[str, Any], rank: int, ranks: int) -> Position:
    """The position of one process in a saved state.

    Args:
        state: The state of a `DataBuffer`.
        rank: Which process, from 0.
        ranks: How many there are.

    Raises:
        DataError: The state is of another version, or of another process alone.
    """
    if state.get("version") != VERSION:
        raise DataError(
            f"data state: version {state.get('version')!r} cannot be read; expected {VERSION}: "
            "resume with the retrain that wrote it"
        )
    shard = list(state["shard"])
    if shard == [rank, ranks]:
        return Position(state["next"], set(state["ahead"]))
    if shard != [0, 1]:
        raise DataError(
            f"data state: is of rank {shard[0]} of {shard[1]} alone, and this is rank {rank} of "
            f"{ranks}; merge the states of all {shard[1]} ranks first "
            "(retrain.rollout.buffer_state:merge_states)"
        )
    first = state["next"] + (rank - state["next"]) % ranks
    return Position(first, {index for index in state["ahead"] if index % ranks == rank})


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those of all ranks, for any number of ranks to go on from.

    Args:
        states: The states of rank 0, 1, … in order.

    Raises:
        DataError: They are not those of all ranks.
    """
    shards = [list(state["shard"]) for state in states]
    if shards != [[rank, len(states)] for rank in range(len(states))]:
        raise DataError(f"data state: expected every rank's, in order; got those of {shards}")
    base = min(state["next"] for state in states)
    ahead = {index for state in states for index in _made(state, base)}
    while base in ahead:
        ahead.remove(base)
        base += 1
    epoch, position = divmod(base, states[0]["tasks"]["count"])
    partial = sorted(_all(states, "partial"), key=lambda row: row["index"])
    return {
        **states[0],
        "drawn": sum(state["drawn"] for state in states),
        "epoch": epoch,
        "position": position,
        "shard": [0, 1],
        "next": base,
        "ahead": sorted(ahead),
        "partial": partial,
    }


def _made(state: Mapping[str, Any], base: int) -> Iterable[int]:
    """The draws of one rank from draw `base` on."""
    rank, ranks = state["shard"]
    first = base + (rank - base) % ranks
    yield from range(first, state["next"], ranks)
    yield from state["ahead"]


def _all(states: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    return [row for state in states for row in state[key]]
