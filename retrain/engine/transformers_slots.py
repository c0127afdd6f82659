"""Which session holds which KV slot, and what a slot still knows.

A slot is one row of the KV buffers. A session keeps its slot while its environment thinks; where
another session needs one, the slot that has been idle longest is taken from its session. The slots
that are lent are always the first rows, so that a batch of them can be read where it stands.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Slot:
    """One row of the KV buffers.

    Attributes:
        index: The row; another one after `SlotTable.release` has moved it.
        session_id: Who holds it.
        tokens: The tokens whose keys and values stand in it, in order.
        idle_since: When its last request ended, by `time.monotonic`.
    """

    index: int
    session_id: str
    tokens: list[int] = field(default_factory=list)
    idle_since: float = 0.0

    def keep_prefix(self, input_ids: list[int]) -> int:
        """Forget what `input_ids` does not begin with.

        At least one token is always left to compute, since its logits are needed.

        Returns:
            How many tokens of `input_ids` the slot still holds.
        """
        kept = common_prefix(self.tokens, input_ids)
        del self.tokens[kept:]
        return kept


def common_prefix(held: list[int], asked: list[int], least: int = 0) -> int:
    """How many tokens two streams begin with together, by bisection over equal slices.

    At least one token of `asked` is always left to compute.

    Args:
        held: What is known.
        asked: What is to be computed.
        least: A length that is no longer of interest; a shorter answer may be given as 0.
    """
    most = min(len(held), len(asked) - 1)
    if most <= least or held[: least + 1] != asked[: least + 1]:
        return 0
    low = least + 1
    while low < most:
        middle = (low + most + 1) // 2
        if held[low:middle] == asked[low:middle]:
            low = middle
        else:
            most = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class Copied:
    """Keys and values to be copied from one row to another.

    Attributes:
        source: The row to read.
        target: The row to write.
        length: How many tokens, from the first one on.
    """

    source: int
    target: int
    length: int


class SlotTable:
    """Lends at most `max_slots` slots; those that are lent are the first rows."""

    def __init__(self, max_slots: int, eviction_grace: float) -> None:
        """Begin with every slot free.

        Args:
            max_slots: How many rows there are.
            eviction_grace: Seconds for which an idle slot is not taken from its session.
        """
        self._max_slots = max_slots
        self._lent: list[Slot] = []
        self._busy: dict[str, Slot] = {}
        self._idle: OrderedDict[str, Slot] = OrderedDict()
        self._grace = eviction_grace

    @property
    def empty(self) -> bool:
        """Whether no session holds a slot."""
        return not self._lent

    @property
    def idle(self) -> Iterable[Slot]:
        """The slots that wait for their sessions' next turns."""
        return self._idle.values()

    def holds(self, session_id: str) -> bool:
        """Whether the session has an idle slot of its own."""
        return session_id in self._idle

    def lends(self, slot: Slot) -> bool:
        """Whether a slot still belongs to a session."""
        return slot.index < len(self._lent) and self._lent[slot.index] is slot

    def take(self, session_id: str) -> Slot | None:
        """Lend a slot: the session's own, else a free one, else the one idle longest.

        Returns:
            The slot, or None while all are in use.
        """
        slot = self._idle.pop(session_id, None)
        if slot is None and len(self._lent) < self._max_slots:
            slot = Slot(len(self._lent), session_id)
            self._lent.append(slot)
        elif slot is None and self.delay(session_id) == 0.0:
            slot = Slot(self._idle.popitem(last=False)[1].index, session_id)
            self._lent[slot.index] = slot
        if slot is not None:
            self._busy[session_id] = slot
        return slot

    def delay(self, session_id: str) -> float | None:
        """Seconds until a session can have a slot; None while all are in use."""
        if len(self._lent) < self._max_slots or session_id in self._idle:
            return 0.0
        if not self._idle:
            return None
        oldest = next(iter(self._idle.values()))
        return max(0.0, oldest.idle_since + self._grace - time.monotonic())

    def give_back(self, slot: Slot) -> None:
        """End the use of a slot; its session keeps it, idle."""
        del self._busy[slot.session_id]
        slot.idle_since = time.monotonic()
        self._idle[slot.session_id] = slot

    def release(self, session_id: str) -> Copied | None:
        """Free the session's idle slot, if it has one, and move the last slot into its row.

        Returns:
            What must be copied before the next forward; None where nothing has moved.
        """
        slot = self._idle.pop(session_id, None)
        if slot is None:
            return None
        last = self._lent.pop()
        if last is slot:
            return None
        moved = Copied(last.index, slot.index, len(last.tokens))
        self._lent[slot.index] = last
        last.index = slot.index
        return moved

    def forget(self) -> None:
        """Nothing in any slot is valid any more; slots in use stay lent, idle ones are freed."""
        for slot in self._busy.values():
            slot.tokens.clear()
        for session_id in list(self._idle):
            self.release(session_id)
