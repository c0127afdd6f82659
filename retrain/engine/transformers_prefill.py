"""Which prompts are computed next, and what of them is copied from others of the same group."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.engine.transformers_forward import Forward
from retrain.engine.transformers_requests import Run, Work
from retrain.engine.transformers_slots import Copied, SlotTable, common_prefix

_LEAST_SHARED = 16
"""Beginnings of no more tokens are computed again rather than waited for and copied."""


class Prefill:
    """Chooses among the runs whose streams need computing."""

    def __init__(self, forward: Forward, table: SlotTable, chunk: int) -> None:
        """Choose for a forward.

        Args:
            forward: Computes, and copies between slots.
            table: Which slots are lent.
            chunk: Most prompt tokens, padding included, of one forward.
        """
        self._forward = forward
        self._table = table
        self._chunk = chunk

    def follow(self, run: Run, running: Sequence[Run]) -> None:
        """Find who computes the longest beginning of a new stream, as members of a group do."""
        streams = [(other.slot, other.stream) for other in running]
        streams += [(slot, slot.tokens) for slot in self._table.idle]
        for slot, stream in streams:
            shared = common_prefix(stream, run.stream, run.shared)
            if shared > max(run.shared, _LEAST_SHARED):
                run.leader, run.shared = slot, shared

    def next_work(self, running: Sequence[Run]) -> list[Work]:
        """The oldest run whose stream needs computing, and others that pad little beside it."""
        limit = self._chunk
        ready = [run for run in running if run.pending > 1 and not self._waits(run, running)]
        behind = [run for run in ready if run.pending > 1]
        if not self._forward.keeps_turns:
            return [(run, run.next_tokens(run.pending)) for run in behind]
        chosen: list[Work] = []
        longest = real = 0
        for run in behind:
            tokens = min(run.pending, limit)
            padded = (len(chosen) + 1) * max(longest, tokens)
            if not chosen or padded <= min(limit, 2 * (real + tokens)):
                chosen.append((run, run.next_tokens(tokens)))
                longest, real = max(longest, tokens), real + tokens
        return chosen

    def _waits(self, run: Run, running: Sequence[Run]) -> bool:
        """Whether a run waits for its leader; takes over what the leader has computed."""
        leader = run.leader
        if leader is None:
            return False
        if len(leader.tokens) < run.shared and any(other.slot is leader for other in running):
            return True
        run.leader = None
        head = run.stream[: run.shared]
        if self._table.lends(leader) and leader.tokens[: run.shared] == head:
            self._forward.copy(Copied(leader.index, run.slot.index, run.shared))
            run.slot.tokens[:] = head
            run.request.cached_tokens = run.shared
        return False
