"""`GatedEngine`: turns that stop when the gate shuts, and go on from their tokens when it opens.

This is how an iteration ends without losing what is half written: the episode itself knows nothing
of it, it only waits for its turn. The tokens written before the gate shut keep their logprobs and
their weight version.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import groupby

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.pausing import GO, away
from retrain.seeds import derive_seed
from retrain.types import FinishReason

GROUP: ContextVar[int] = ContextVar("retrain_group")
"""The index of the group that the running task plays."""

ABORT_AGAIN_SECONDS = 1.0
"""How long an abort may go unheard, as where it overtakes its request, before it is sent again."""

_NO_GROUP = -1


@dataclass(slots=True)
class _Lane:
    """What the gate knows of one group."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    running: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    versions: dict[str, None] = field(default_factory=dict)


class GatedEngine:
    """An `InferenceEngine` with a gate for every group.

    A turn that the engine cannot abort runs to its end when the gate shuts. Who plays outside a
    group, such as an evaluation, passes at any time.
    """

    def __init__(self, engine: InferenceEngine) -> None:
        """Stand before `engine`; every gate is shut at first."""
        self._engine = engine
        self._lanes: defaultdict[int, _Lane] = defaultdict(_Lane)
        self._lanes[_NO_GROUP].opened.set()
        self._kept: set[str] = set()
        self._wrote: dict[str, None] = {}
        self._parts: dict[str, list[Generation]] = {}
        self._in_engine = 0
        self._idle = asyncio.Event()
        self._standing = 0
        self._waiting: set[int] = set()

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine behind can do."""
        return self._engine.capabilities

    def enter(self, group: int) -> None:
        """Say that the running task plays a group: it goes on only while that group's gate is open.

        Args:
            group: The group's index.
        """
        GROUP.set(group)
        GO.set(self._lanes[group].opened)

    def open(self, groups: Collection[int]) -> None:
        """Let groups go on; during a `standstill`, when it is over."""
        if self._standing:
            self._waiting.update(groups)
            return
        for group in groups:
            self._lanes[group].opened.set()

    async def shut(self) -> tuple[str, ...]:
        """Stop every group's turns; none of them is in the engine when this returns.

        What the engine keeps for suspended episodes is released: the weights are about to change.

        Returns:
            The weight versions that have written since the last time, oldest first.
        """
        self._waiting.clear()
        await self._stop()
        wrote, self._wrote = tuple(self._wrote), {}
        return wrote

    @asynccontextmanager
    async def standstill(self) -> AsyncIterator[None]:
        """Keep every group out of the engine while the context lasts; then the same ones go on.

        What the engine keeps for them is released: the weights are about to change.
        """
        lanes = self._lanes.items()
        self._waiting |= {g for g, lane in lanes if g != _NO_GROUP and lane.opened.is_set()}
        self._standing += 1
        try:
            await self._stop()
            yield
        finally:
            self._standing -= 1
            if not self._standing:
                waiting, self._waiting = self._waiting, set()
                self.open(waiting)

    async def _stop(self) -> None:
        lanes = [lane for group, lane in self._lanes.items() if group != _NO_GROUP]
        for lane in lanes:
            lane.opened.clear()
        while sessions := [session for lane in lanes for session in lane.running]:
            await asyncio.gather(*map(self._engine.abort, sessions))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), ABORT_AGAIN_SECONDS)
        kept, self._kept = sorted(self._kept), set()
        await asyncio.gather(*map(self._engine.release, kept))

    def forget(self, group: int) -> None:
        """Drop what is known of a group that has ended."""
        self._lanes.pop(group, None)
        self._waiting.discard(group)

    def tokens(self, group: int) -> int:
        """How many tokens the engine has written for a group."""
        return self._lanes[group].tokens if group in self._lanes else 0

    def weight_versions(self, group: int) -> tuple[str, ...]:
        """The weight versions that have written a group's tokens, in the order of appearance."""
        return tuple(self._lanes[group].versions) if group in self._lanes else ()

    def written(self, session_id: str) -> Generation | None:
        """What there is of the turn that a suspended session is to go on with; None for nothing."""
        parts = self._parts.get(session_id)
        return joined(parts) if parts else None

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`, over as many openings of the gate as it takes."""
        lane = self._lanes[GROUP.get(_NO_GROUP)]
        parts = self._parts[session_id] = []
        stream = list(input_ids)
        while True:
            while not lane.opened.is_set():
                async with away():
                    await lane.opened.wait()
            written = len(stream) - len(input_ids)
            with self._running(lane, session_id):
                part = await self._engine.generate(
                    stream,
                    replace(params, max_tokens=params.max_tokens - written),
                    session_id=session_id,
                    seed=part_seed(seed, written),
                    images=images,
                )
            parts.append(part)
            self._note(lane, part)
            stream += part.output_ids
            if part.finish_reason is not FinishReason.ABORT or lane.opened.is_set():
                return self._whole(session_id, part.finish_reason)
            if len(stream) - len(input_ids) >= params.max_tokens:
                return self._whole(session_id, FinishReason.LENGTH)

    def _whole(self, session_id: str, reason: FinishReason) -> Generation:
        return replace(joined(self._parts.pop(session_id)), finish_reason=reason)

    def _note(self, lane: _Lane, part: Generation) -> None:
        """Count what a part wrote."""
        if part.output_ids:
            lane.tokens += len(part.output_ids)
            lane.versions[part.weight_version] = None
            self._wrote[part.weight_version] = None

    @contextmanager
    def _running(self, lane: _Lane, session_id: str) -> Iterator[None]:
        lane.running[session_id] += 1
        if lane is not self._lanes[_NO_GROUP]:
            self._kept.add(session_id)
        self._in_engine += 1
        self._idle.clear()
        try:
            yield
        finally:
            lane.running[session_id] -= 1
            lane.running = +lane.running
            self._in_engine -= 1
            if not self._in_engine:
                self._idle.set()

    async def abort(self, session_id: str) -> None:
        """End the session's running request."""
        await self._engine.abort(session_id)

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        self._kept.discard(session_id)
        self._parts.pop(session_id, None)
        await self._engine.release(session_id)


def part_seed(seed: int, written: int) -> int:
    """The seed of a turn that goes on.

    Args:
        seed: The turn's seed.
        written: How many tokens of the turn are written already.
    """
    return derive_seed("continued", seed, written) if written else seed


def joined(parts: Sequence[Generation]) -> Generation:
    """One turn of several parts; `meta["weight_spans"]` says which weights wrote which tokens.

    Args:
        parts: At least one, in order.
    """
    wrote = [part for part in parts if part.output_ids]
    if len(wrote) < 2:
        return wrote[0] if wrote else parts[-1]
    last = wrote[-1]
    return replace(
        last,
        output_ids=tuple(token for part in wrote for token in part.output_ids),
        logprobs=tuple(logprob for part in wrote for logprob in part.logprobs),
        text="".join(part.text for part in wrote),
        meta={**last.meta, "weight_spans": _spans(wrote)},
    )


def _spans(parts: Sequence[Generation]) -> tuple[tuple[int, str], ...]:
    """(tokens, weight version) of each stretch; none where one version wrote it all."""
    stretches = [
        (sum(len(part.output_ids) for part in same), version)
        for version, same in groupby(parts, key=lambda part: part.weight_version)
    ]
    return tuple(stretches) if len(stretches) > 1 else ()
