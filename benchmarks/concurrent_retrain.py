"""Episodes in retrain's `EnvironmentBridge`; run by `concurrency.py`.

Rendering and tokenizing the replies is part of it, as is everything else but the engine and the
environment, whose answers are prepared.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge_overhead import load_tokenizer
from concurrent_side import ANSWER, CONNECT_SECONDS, PROMPT, Play, Work, measure

from bridges import EnvironmentBridge, EpisodeLimits
from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.http_client import HttpSettings
from retrain.engine.sglang_engine import SGLangEngine
from retrain.environment.base import Environment
from retrain.rendering import load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Message, Observation, StepResult, Task, Trajectory

UNBOUNDED = 10**9
MOST = 4096
TASK = Task("sum", PROMPT)
folder = os.environ.get("CONCURRENCY_TOKENIZER")
tokenizer = load_tokenizer(Path(folder) if folder else None)
renderer = load_renderer(tokenizer)
sampled = tokenizer.encode(ANSWER * 128, add_special_tokens=False)


class Dialog(Environment):
    """Says the same after each turn but the last."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._left = work.turns

    async def reset(self, task: Task, seed: int) -> Observation:
        """Give the prompt."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Reply, or end."""
        self._left -= 1
        if not self._left:
            return StepResult(Observation(), 1.0, terminated=True)
        return StepResult(Observation((Message("user", await self._work.reply()),)))


class Engine:
    """Answers at once what a server answers that takes and gives token ids."""

    capabilities = EngineCapabilities(seeded=True, abortable=True)

    def __init__(self, work: Work) -> None:
        self._work = work

    async def generate(
        self, input_ids: Sequence[int], params: SamplingParams, **_: Any
    ) -> Generation:
        """The next answer."""
        return await self._work.answer(self._generation, len(input_ids))

    def _generation(self, prompt: int) -> Generation:
        count = self._work.tokens
        ids = [*(token + 0 for token in sampled[: count - 1]), tokenizer.eos_token_id]
        logprobs = tuple(-0.5 - n / 1e3 for n in range(count))
        return Generation(tuple(ids), logprobs, FinishReason.STOP)

    async def abort(self, session_id: str) -> None:
        """Nothing runs that could be ended."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept that could be freed."""


def _over_http(url: str) -> SGLangEngine:
    patient = HttpSettings(timeout=CONNECT_SECONDS, connect_timeout=CONNECT_SECONDS)
    return SGLangEngine(url, settings=patient)


@asynccontextmanager
async def players(work: Work) -> AsyncIterator[Play]:
    """One bridge and one engine for all episodes, as a run has them."""
    engine: Any = _over_http(work.url) if work.url else Engine(work)
    bridge = EnvironmentBridge(renderer, lambda: Dialog(work), EpisodeLimits(UNBOUNDED))

    async def play(number: int) -> Trajectory:
        seed = EpisodeSeed(0, "train", TASK.id, 0, number)
        return await bridge.run(TASK, engine=engine, params=SamplingParams(MOST), seed=seed)

    try:
        yield play
    finally:
        if work.url:
            await engine.aclose()


def turns(trajectories: Sequence[Trajectory]) -> int:
    """Turns of finished episodes."""
    assert all(trajectory.status is Status.COMPLETED for trajectory in trajectories)
    return sum(len(trajectory.turns) for trajectory in trajectories)


if __name__ == "__main__":
    measure(players, turns)
