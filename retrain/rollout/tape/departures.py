"""Where a replay departs from its recording: episode, turn, and the first differing token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from retrain.config.redact import redact
from retrain.types import Group, Trajectory, Turn

Decode = Callable[[Sequence[int]], str]

_AROUND = 24
"""Tokens that are shown before and after the first differing one."""


@dataclass(frozen=True, slots=True)
class Departure:
    """One difference between a recorded episode and the same episode played again.

    Attributes:
        task_id: The task.
        visit: Its visit.
        sample_index: The slot in the group.
        turn: The turn, from 0; -1 for the first prompt and for the episode as a whole.
        what: "prompt", "reply", "sampled", "logprobs", "action", "reward", "status", …
        recorded: What the tape holds, readable; tokens are decoded.
        played: What the replay gave.
        token: Position of the first differing token in the part that `what` names; None where
            no tokens differ.
    """

    task_id: str
    visit: int
    sample_index: int
    turn: int
    what: str
    recorded: str
    played: str
    token: int | None = None

    def __str__(self) -> str:
        turn = "" if self.turn < 0 else f", turn {self.turn}"
        token = "" if self.token is None else f", token {self.token}"
        return (
            f"task {self.task_id!r} visit {self.visit} sample {self.sample_index}{turn}: "
            f"{self.what}{token}\n  recorded: {self.recorded}\n  played:   {self.played}"
        )


def departures(recorded: Group, played: Group, decode: Decode) -> Iterator[Departure]:
    """Compare two plays of one group; of each episode, the first departure of its stream.

    Times are not compared, nor what an engine says about its cache.

    Args:
        recorded: The tape's.
        played: The replay's.
        decode: Gives the text of ids.

    Yields:
        At most one departure of each stream, then those of its rewards, status and advantage.
    """
    slots = zip(recorded.trajectories, played.trajectories, strict=True)
    for slot, (then, now) in enumerate(slots):
        seed = then.seed
        stream = next(_stream(then, now, decode), None)
        found = [*([stream] if stream else []), *_outcome(then, now)]
        pair = recorded.advantages[slot], played.advantages[slot]
        if not _same(*pair):
            found.append((-1, "advantage", repr(pair[0]), repr(pair[1]), None))
        for difference in found:
            yield Departure(then.task.id, seed.visit, seed.sample_index, *difference)


_Difference = tuple[int, str, str, str, int | None]


def _stream(then: Trajectory, now: Trajectory, decode: Decode) -> Iterator[_Difference]:
    if len(then.segments) != len(now.segments):
        yield -1, "segments", str(len(then.segments)), str(len(now.segments)), None
    turn = 0
    for old, new in zip(then.segments, now.segments, strict=False):
        yield from _ids(turn or -1, "prompt", old.prompt_ids, new.prompt_ids, decode)
        for before, after in zip_longest(old.turns, new.turns):
            if before is None or after is None:
                yield turn, "turns", str(len(old.turns)), str(len(new.turns)), None
                return
            yield from _turn(turn, before, after, decode)
            turn += 1


def _turn(turn: int, then: Turn, now: Turn, decode: Decode) -> Iterator[_Difference]:
    yield from _ids(turn, "sampled", then.output_ids, now.output_ids, decode)
    for what in ("output_logprobs", "finish_reason", "weight_version", "action", "reward"):
        before, after = getattr(then, what), getattr(now, what)
        if not _same(before, after):
            yield turn, what.removeprefix("output_"), repr(before), repr(after), None
    before, after = redact(then.info), redact(now.info)
    if not _same(before, after):
        yield turn, "info", repr(before), repr(after), None
    yield from _ids(turn, "reply", then.env_ids, now.env_ids, decode)


def _ids(
    turn: int, what: str, then: Sequence[int], now: Sequence[int], decode: Decode
) -> Iterator[_Difference]:
    if tuple(then) == tuple(now):
        return
    pairs = enumerate(zip(then, now, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(then), len(now)))
    shown = slice(max(at - _AROUND, 0), at + _AROUND)
    yield turn, what, repr(decode(list(then)[shown])), repr(decode(list(now)[shown])), at


def _outcome(then: Trajectory, now: Trajectory) -> Iterator[_Difference]:
    for name in sorted({*then.rewards, *now.rewards}):
        before, after = then.rewards.get(name), now.rewards.get(name)
        if not _same(before, after):
            yield -1, f"reward component {name!r}", repr(before), repr(after), None
    for what in ("reward", "status", "stop_reason", "masked"):
        before, after = getattr(then, what), getattr(now, what)
        if not _same(before, after):
            yield -1, what, repr(before), repr(after), None
    reasons = [None if t.error is None else t.error.reason for t in (then, now)]
    if reasons[0] != reasons[1]:
        yield -1, "error", repr(reasons[0]), repr(reasons[1]), None


def _same(one: Any, other: Any) -> bool:
    """Equality under which NaN is itself, and lists are tuples, as a tape reads them back."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
