"""An engine that takes its time, more for some turns than for others, and can be aborted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.factory import EngineContext
from retrain.types import FinishReason

_SECONDS = 0.002


class UnevenEngine:
    """Writes a few tokens for most seeds and many for some, one every 2 ms."""

    capabilities = EngineCapabilities(seeded=True, abortable=True)

    def __init__(self, encode: Sequence[int]) -> None:
        self._words = encode
        self._aborted: set[str] = set()
        self._running: set[str] = set()
        self.weight_version = "0"

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        rng = random.Random(seed)
        length = min(params.max_tokens - 1, 40 if rng.random() < 0.3 else 2)
        ids = [rng.choice(self._words) for _ in range(length)]
        self._running.add(session_id)
        for written in range(length):
            if session_id in self._aborted:
                self._aborted.discard(session_id)
                self._running.discard(session_id)
                return self._answer(ids[:written], FinishReason.ABORT)
            await asyncio.sleep(_SECONDS)
        self._running.discard(session_id)
        return self._answer([*ids, min(params.stop_token_ids)], FinishReason.STOP)

    def _answer(self, ids: list[int], reason: FinishReason) -> Generation:
        return Generation(
            tuple(ids), (-0.5,) * len(ids), reason, weight_version=self.weight_version
        )

    async def abort(self, session_id: str) -> None:
        if session_id in self._running:
            self._aborted.add(session_id)

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""


def uneven(context: EngineContext) -> UnevenEngine:
    """The engine, writing words of the model's vocabulary."""
    assert context.encode is not None
    return UnevenEngine(context.encode("one two three four five six seven"))
