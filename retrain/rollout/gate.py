"""`GatedEngine`: turns that stop when the gate shuts, and go on from their tokens when it opens.

This is how an iteration ends without losing what is half written: the episode itself knows nothing
of it, it only waits for its turn. The tokens written before the gate shut keep their logprobs and
their weight version.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
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

    def note(self, part: Generation) -> None:
        """Count what a part wrote."""
        if part.output_ids:
            self.tokens += len(part.output_ids)
            self.versions[part.weight_version] = None


class GatedEngine:
    """An `InferenceEngine` with a gate for every group.

    A turn that the engine cannot abort runs to its end when the gate shuts.
    """

    def __init__(self, engine: InferenceEngine) -> None:
        """Stand before `engine`; every gate is shut at first."""
        self._engine = engine
        self._lanes: defaultdict[int, _Lane] = defaultdict(_Lane)
        self._in_engine = 0
        self._idle = asyncio.Event()

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine behind can do."""
        return self._engine.capabilities

    def open(self, groups: Collection[int]) -> None:
        """Let groups go on."""
        for group in groups:
            self._lanes[group].opened.set()

    async def shut(self) -> None:
        """Stop every group's turns; none of them is in the engine when this returns."""
        for lane in self._lanes.values():
            lane.opened.clear()
        while sessions := [s for lane in self._lanes.values() for s in lane.running]:
            await asyncio.gather(*map(self._engine.abort, sessions))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), ABORT_AGAIN_SECONDS)

    def forget(self, group: int) -> None:
        """Drop what is known of a group that has ended."""
        self._lanes.pop(group, None)

    def tokens(self, group: int) -> int:
        """How many tokens the engine has written for a group."""
        return self._lanes[group].tokens if group in self._lanes else 0

    def weight_versions(self, group: int) -> tuple[str, ...]:
        """The weight versions that have written a group's tokens, in the order of appearance."""
        return tuple(self._lanes[group].versions) if group in self._lanes else ()

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
        parts: list[Generation] = []
        stream = list(input_ids)
        while True:
            await lane.opened.wait()
            left = params.max_tokens - (len(stream) - len(input_ids))
            part_seed = derive_seed("continued", seed, len(stream)) if parts else seed
            with self._running(lane, session_id):
                part = await self._engine.generate(
                    stream,
                    replace(params, max_tokens=left),
                    session_id=session_id,
                    seed=part_seed,
                    images=images,
                )
            if part.output_ids or not parts:
                parts.append(part)
            lane.note(part)
            stream += part.output_ids
            written = len(stream) - len(input_ids)
            if part.finish_reason is not FinishReason.ABORT or lane.opened.is_set():
                return replace(_joined(parts), finish_reason=part.finish_reason)
            if written >= params.max_tokens:
                return replace(_joined(parts), finish_reason=FinishReason.LENGTH)

    @contextmanager
    def _running(self, lane: _Lane, session_id: str) -> Iterator[None]:
        lane.running[session_id] += 1
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
        await self._engine.release(session_id)


def _joined(parts: Sequence[Generation]) -> Generation:
    """One turn of several parts; `meta["weight_spans"]` says which weights wrote which tokens."""
    last = parts[-1]
    if len(parts) == 1:
        return last
    return replace(
        last,
        output_ids=tuple(token for part in parts for token in part.output_ids),
        logprobs=tuple(logprob for part in parts for logprob in part.logprobs),
        text="".join(part.text for part in parts),
        meta={
            **last.meta,
            "weight_spans": [(len(part.output_ids), part.weight_version) for part in parts],
        },
    )
