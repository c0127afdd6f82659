"""Asks an engine for turns, in an event loop of the test's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count

from retrain.engine.base import Generation, InferenceEngine, SamplingParams

MakeEngine = Callable[[], InferenceEngine]
_SESSIONS = count()


@dataclass(frozen=True, slots=True)
class Asking:
    """An engine that runs, and the shortest way to ask it.

    Attributes:
        engine: The engine.
        patience: Seconds after which a turn counts as hung.
    """

    engine: InferenceEngine
    patience: float

    async def turn(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        stops: frozenset[int] = frozenset(),
        session: str | None = None,
        seed: int = 0,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Write one turn; in a session of its own, which is then released, unless one is named.

        Args:
            prompt: The stream so far.
            max_tokens: Most tokens to write.
            temperature: 0 is greedy.
            top_p: Nucleus.
            stops: Stop tokens.
            session: The session's id.
            seed: The turn's seed.
            images: Images of the prompt.
        """
        named = session or new_session()
        params = SamplingParams(max_tokens, temperature, top_p, stop_token_ids=stops)
        async with asyncio.timeout(self.patience):
            answer = await self.engine.generate(
                list(prompt), params, session_id=named, seed=seed, images=images
            )
        if session is None:
            await self.engine.release(named)
        return answer


def new_session() -> str:
    """A session id that no other test has."""
    return f"kit-{next(_SESSIONS)}"


def ask(
    make: MakeEngine,
    close: Callable[[InferenceEngine], Awaitable[None]],
    patience: float,
    check: Callable[[Asking], Awaitable[None]],
) -> None:
    """Make an engine, check something about it, and close it, all in one event loop.

    Args:
        make: Makes it; its `start` is awaited where it has one.
        close: Closes it.
        patience: Seconds after which a turn counts as hung.
        check: What to check.
    """

    async def run() -> None:
        engine = make()
        try:
            start = getattr(engine, "start", None)
            if start is not None:
                await _if_awaitable(start())
            await check(Asking(engine, patience))
        finally:
            await close(engine)

    asyncio.run(run())


async def close_whatever(engine: InferenceEngine) -> None:
    """Call an engine's `aclose` or `close`, whichever it has."""
    close = getattr(engine, "aclose", None) or getattr(engine, "close", None)
    if close is not None:
        await _if_awaitable(close())


async def _if_awaitable(value: object) -> None:
    if inspect.isawaitable(value):
        await value
