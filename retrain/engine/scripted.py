"""`ScriptedEngine`: plays back what it is told, so that everything around an engine can be tested.

No model, no clock, no randomness: the same script, session and seed give the same bytes, whatever
else runs beside them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.errors import ConfigError, EngineFailure, boundary
from retrain.seeds import derive_seed
from retrain.types import FinishReason

Ids = str | Sequence[int]
"""A turn: token ids, or a text for `encode`."""
Answer = Ids | tuple[Ids, Sequence[float]]
"""A turn, alone or with the logprob of each of its ids."""
Policy = Callable[[tuple[int, ...], SamplingParams, str, int], Answer | Awaitable[Answer]]
"""(input_ids, params, session_id, seed) -> answer, or an awaitable of one."""
Script = Policy | Sequence[Answer] | Mapping[str, Sequence[Answer]]
"""A policy, the turns of every session, or the turns by session id."""

_LOWEST_LOGPROB = -4.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request that a scripted engine saw.

    Attributes:
        session_id: Whose turn it was.
        input_ids: The whole stream so far.
        seed: The turn's seed.
        params: How to sample.
    """

    session_id: str
    input_ids: tuple[int, ...]
    seed: int
    params: SamplingParams


class ScriptedEngine:
    """Plays back scripted turns.

    Every session has its own turn pointer, so concurrent episodes do not depend on the order in
    which their requests arrive. The pointer moves when a turn is delivered: a retried turn gets
    the same answer. `release` puts it back to the start.

    Attributes:
        calls: What was asked, in order of arrival.
        weight_version: Stands on every generation.
    """

    def __init__(
        self,
        script: Script,
        *,
        encode: Callable[[str], Sequence[int]] | None = None,
        weight_version: str = "0",
        token_delay: float = 0.0,
    ) -> None:
        """Take a script.

        Args:
            script: What to answer; a turn whose script ends without a stop token counts as
                stopped.
            encode: Turns scripted texts into ids; needed only where there are texts.
            weight_version: Stands on every generation.
            token_delay: Seconds to wait before each token, so that an abort can fall between two.
        """
        self.calls: list[Call] = []
        self.weight_version = weight_version
        self._script = script
        self._encode = encode
        self._token_delay = token_delay
        self._turns: dict[str, int] = {}
        self._running: dict[str, asyncio.Event] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        """Seeded and abortable; a prompt's images change a script no more than its text does."""
        return EngineCapabilities(seeded=True, abortable=True, images=True)

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Answer with the session's next scripted turn.

        Raises:
            EngineFailure: The script has no such turn, raised, or gave logprobs that do not fit.
        """
        if session_id in self._running:
            raise EngineFailure(f"session {session_id!r} already has a running request")
        call = Call(session_id, tuple(input_ids), seed, params)
        self.calls.append(call)
        aborted = self._running[session_id] = asyncio.Event()
        try:
            return await self._play(call, aborted)
        finally:
            del self._running[session_id]

    async def abort(self, session_id: str) -> None:
        """End the session's running request with what it has written so far."""
        if session_id in self._running:
            self._running[session_id].set()

    async def release(self, session_id: str) -> None:
        """Forget the session; a later one of the same name starts at its first turn."""
        self._turns.pop(session_id, None)

    def weights_changed(self, version: str) -> None:
        """Put another weight version on the generations from now on."""
        self.weight_version = version

    async def _play(self, call: Call, aborted: asyncio.Event) -> Generation:
        answer = await _unless(aborted, self._answer(call))
        if answer is None:
            return self._generation((), (), FinishReason.ABORT)
        ids, logprobs, reason = _cut(*self._read(answer, call.seed), call.params)
        for position in range(len(ids) if self._token_delay else 0):
            await _unless(aborted, asyncio.sleep(self._token_delay))
            if aborted.is_set():
                ids, logprobs, reason = ids[:position], logprobs[:position], FinishReason.ABORT
                break
        self._turns[call.session_id] = self._turns.get(call.session_id, 0) + 1
        return self._generation(ids, logprobs, reason)

    def _generation(
        self, ids: tuple[int, ...], logprobs: tuple[float, ...], reason: FinishReason
    ) -> Generation:
        return Generation(ids, logprobs, reason, weight_version=self.weight_version)

    async def _answer(self, call: Call) -> Answer:
        if not callable(self._script):
            return self._scripted_turn(self._script, call.session_id)
        async with boundary(EngineFailure, "script"):
            answer = self._script(call.input_ids, call.params, call.session_id, call.seed)
            return await answer if inspect.isawaitable(answer) else answer

    def _scripted_turn(
        self, script: Sequence[Answer] | Mapping[str, Sequence[Answer]], session_id: str
    ) -> Answer:
        if isinstance(script, Mapping):
            if session_id not in script:
                raise EngineFailure(f"the script has no session {session_id!r}")
            script = script[session_id]
        turn = self._turns.get(session_id, 0)
        if turn >= len(script):
            raise EngineFailure(
                f"session {session_id!r} asks for turn {turn}, the script has {len(script)} turns"
            )
        return script[turn]

    def _read(self, answer: Answer, seed: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        turn, logprobs = _split(answer)
        ids = tuple(self._encoded(turn))
        if logprobs is None:
            return ids, tuple(_logprob(seed, position) for position in range(len(ids)))
        if len(logprobs) != len(ids):
            raise EngineFailure(f"the script gives {len(ids)} ids and {len(logprobs)} logprobs")
        return ids, tuple(logprobs)

    def _encoded(self, turn: Ids) -> Sequence[int]:
        if not isinstance(turn, str):
            return turn
        if self._encode is None:
            raise ConfigError(f"the script holds the text {turn!r}: pass encode= to ScriptedEngine")
        return self._encode(turn)


def _split(answer: Answer) -> tuple[Ids, Sequence[float] | None]:
    if isinstance(answer, tuple) and len(answer) == 2 and not isinstance(answer[0], int):
        return answer
    return cast("Ids", answer), None


def _cut(
    ids: tuple[int, ...], logprobs: tuple[float, ...], params: SamplingParams
) -> tuple[tuple[int, ...], tuple[float, ...], FinishReason]:
    stops = (n for n, token in enumerate(ids, 1) if token in params.stop_token_ids)
    end = next(stops, len(ids))
    reason = FinishReason.STOP if end <= params.max_tokens else FinishReason.LENGTH
    end = min(end, params.max_tokens)
    return ids[:end], logprobs[:end], reason


def _logprob(seed: int, position: int) -> float:
    return _LOWEST_LOGPROB * (derive_seed("logprob", seed, position) + 1) / 2**63


async def _unless(aborted: asyncio.Event, work: Awaitable[_T]) -> _T | None:
    """Wait for `work`, or give None when `aborted` is set first."""
    running = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(aborted.wait())
    try:
        await asyncio.wait({running, watch}, return_when=asyncio.FIRST_COMPLETED)
        return await running if running.done() else None
    finally:
        watch.cancel()
        running.cancel()
