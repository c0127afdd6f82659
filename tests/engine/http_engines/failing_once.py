"""A server that fails once, and what an engine makes of it."""

from __future__ import annotations

import pytest

from retrain.engine.base import SamplingParams
from retrain.engine.http_engine import HttpEngine
from retrain.errors import EngineFailure

PROMPT = [1, 50, 60, 70]


async def require_one_failure(engine: HttpEngine, message: str) -> None:
    """Ask twice: the first time fails with the message, the second time is answered."""
    with pytest.raises(EngineFailure, match=message):
        await engine.generate(PROMPT, SamplingParams(5), session_id="s", seed=3)
    again = await engine.generate(PROMPT, SamplingParams(5), session_id="s", seed=3)
    assert len(again.output_ids) == 5
    await engine.aclose()
