"""An engine that holds turns in mid-sentence until somebody aborts them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.transformers_engine import TransformersEngine
from retrain.types import FinishReason

SOME = 4
"""Tokens that a held turn has written."""


class HeldEngine:
    """The engine of a test server.

    Attributes:
        holding: Whether turns that want more than `SOME` tokens are held.
        held: Those that are, by session.
    """

    def __init__(self, engine: TransformersEngine) -> None:
        self._engine = engine
        self.holding = False
        self.held: dict[str, asyncio.Event] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(
        self, input_ids: Sequence[int], params: SamplingParams, *, session_id: str, seed: int
    ) -> Generation:
        hold = self.holding and params.max_tokens > SOME
        asked = replace(params, max_tokens=SOME) if hold else params
        answer = await self._engine.generate(input_ids, asked, session_id=session_id, seed=seed)
        if not hold or answer.finish_reason is not FinishReason.LENGTH:
            return answer
        aborted = self.held[session_id] = asyncio.Event()
        await aborted.wait()
        del self.held[session_id]
        return replace(answer, finish_reason=FinishReason.ABORT)

    async def abort(self, session_id: str) -> None:
        if session_id in self.held:
            self.held[session_id].set()
        else:
            await self._engine.abort(session_id)
