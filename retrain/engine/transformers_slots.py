"""Which session holds which KV slot, and what a slot still knows.

A slot is one row of the KV buffers. A session keeps its slot while its environment thinks; where
another session needs one, the slot that has been idle longest is taken from its session.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Slot:
    """One row of the KV buffers.

    Attributes:
        index: The row.
        session_id: Who holds it.
        tokens: The tokens whose keys and values stand in it, in order.
        idle_since: When its last request ended, by `time.monotonic`.
    """

    index: int
    session_id: str
    tokens: list[int] = field(default_factory=list)
    idle_since: float = 0.0

    def keep_prefix(self, input_ids: Sequence[int]) -> int:
        """Forget what `input_ids` does not begin with.

        At least one token is always left to compute, since its logits are needed.

        Returns:
            How many tokens of `input_ids` the slot still holds.
        """
        kept = min(len(self.tokens), len(input_ids) - 1)
        if self.tokens[:kept] != list(input_ids[:kept]):
            pairs = zip(self.tokens, input_ids, strict=False)
            kept = next(n for n, (held, asked) in enumerate(pairs) if held != asked)
        del self.tokens[kept:]
        return kept


class SlotTable:
    """Lends at most `max_slots` slots, lowest row first."""

    def __init__(self, max_slots: int, eviction_grace: float) -> None:
        """Begin with every slot free.

        Args:
            max_slots: How many rows there are.
            eviction_grace: Seconds for which an idle slot is not taken from its session.
        """
        self._free = list(range(max_slots))
        self._busy: dict[str, Slot] = {}
        self._idle: OrderedDict[str, Slot] = OrderedDict()
        self._grace = eviction_grace

    @property
    def empty(self) -> bool:
        """Whether no session holds a slot."""
        return not self._busy and not self._idle

    def holds(self, session_id: str) -> bool:
        """Whether the session has an idle slot of its own."""
        return session_id in self._idle

    def take(self, session_id: str) -> Slot | None:
        """Lend a slot: the session's own, else a free one, else the one idle longest.

        Returns:
            The slot, or None while all are in use.
        """
        slot = self._idle.pop(session_id, None)
        if slot is None and self._free:
            slot = Slot(heapq.heappop(self._free), session_id)
        elif slot is None and self.delay(session_id) == 0.0:
            slot = Slot(self._idle.popitem(last=False)[1].index, session_id)
        if slot is not None:
            self._busy[session_id] = slot
        return slot

    def delay(self, session_id: str) -> float | None:
        """Seconds until a session can have a slot; None while all are in use."""
        if self._free or session_id in self._idle:
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

    def release(self, session_id: str) -> None:
        """Free the session's idle slot, if it has one."""
        slot = self._idle.pop(session_id, None)
        if slot is not None:
            heapq.heappush(self._free, slot.index)

    def forget(self) -> None:
        """Nothing in any slot is valid any more; slots in use stay lent, idle ones are freed."""
        for slot in self._busy.values():
            slot.tokens.clear()
        for session_id in list(self._idle):
            self.release(session_id)
