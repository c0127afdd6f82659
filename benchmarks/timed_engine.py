"""An engine with continuous batching that computes nothing and takes the time that one would.

A step writes one token of every running request and takes `fixed + per_sequence * running` seconds;
what a request brings that is not cached delays everybody. Time is the event loop's.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.types import FinishReason

ALMOST = 1e-6


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast it is.

    Attributes:
        fixed: Seconds of a step, whatever runs.
        per_sequence: Seconds that each running request adds to a step.
        prefill: Seconds for a prompt's token that is not cached.
        running: Most requests that run at a time; others wait.
    """

    fixed: float = 0.008
    per_sequence: float = 0.00005
    prefill: float = 0.00002
    running: int = 128


class Wanted:
    """How much of an answer is missing, read off the stream alone.

    The last message before the answer says `N tokens`, as ChatML has it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._header = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)

    def __call__(self, stream: Sequence[int]) -> int:
        """Tokens that are missing after `stream`, the stop token included."""
        backwards = list(reversed(stream))
        begin = self._header[0]
        header = backwards.index(begin)
        before = backwards.index(begin, header + 1)
        said = self._tokenizer.decode(backwards[header + 1 : before][::-1])
        found = re.search(r"(\d+) tokens", said)
        if found is None:
            raise ValueError(f"no length in {said!r}")
        return int(found[1]) - (header + 1 - len(self._header))


@dataclass(slots=True, order=True)
class _Request:
    end: float
    number: int
    session: str = field(compare=False)
    prompt: int = field(compare=False)
    tokens: int = field(compare=False)
    whole: bool = field(compare=False)
    answer: asyncio.Future[Generation] = field(compare=False)


class TimedEngine:
    """Writes `answer` over and over, as long as is wanted; can be aborted.

    Attributes:
        written: Tokens written so far.
        weight_version: Stands on every generation.
    """

    capabilities = EngineCapabilities(seeded=True, abortable=True)

    def __init__(
        self, speed: Speed, wanted: Callable[[Sequence[int]], int], answer: Sequence[int], stop: int
    ) -> None:
        self.weight_version, self.written = "0", 0
        self._speed, self._wanted, self._answer, self._stop = speed, wanted, tuple(answer), stop
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._cached: dict[str, int] = {}
        self._position = self._at = self._delay = 0.0
        self._requests = 0
        self._timer: asyncio.TimerHandle | None = None

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids` by what is wanted."""
        wanted = self._wanted(input_ids)
        tokens = min(wanted, params.max_tokens)
        self._requests += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(
            _Request(
                0.0,
                self._requests,
                session_id,
                len(input_ids),
                tokens,
                tokens == wanted,
                answer,
            )
        )
        self._advance()
        return await answer

    async def abort(self, session_id: str) -> None:
        """End the session's request with what it has written."""
        self._advance()
        for requests in (self._waiting, self._running):
            for request in [r for r in requests if r.session == session_id]:
                requests.remove(request)
                begun = request.end - request.tokens if request.end else self._position
                self._end(request, int(self._position - begun + ALMOST))
        self._running.sort()
        self._advance()

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        self._cached.pop(session_id, None)

    def _advance(self) -> None:
        """Let the time pass since the last change, and begin and end what is due."""
        loop = asyncio.get_running_loop()
        elapsed, self._at = loop.time() - self._at, loop.time()
        if self._running:
            delayed = min(self._delay, elapsed)
            self._delay -= delayed
            self._position += (elapsed - delayed) / self._step
        while self._running and self._running[0].end <= self._position + ALMOST:
            request = heappop(self._running)
            self._end(request, request.tokens)
        while self._waiting and len(self._running) < self._speed.running:
            self._admit(self._waiting.popleft())
        if self._timer is not None:
            self._timer.cancel()
        if self._running:
            left = self._running[0].end - self._position
            self._timer = loop.call_later(self._delay + left * self._step, self._advance)

    @property
    def _step(self) -> float:
        return self._speed.fixed + self._speed.per_sequence * len(self._running)

    def _admit(self, request: _Request) -> None:
        fresh = request.prompt - self._cached.get(request.session, 0)
        self._delay += fresh * self._speed.prefill
        request.end = self._position + request.tokens
        heappush(self._running, request)

    def _end(self, request: _Request, tokens: int) -> None:
        done = tokens == request.tokens
        reason = FinishReason.ABORT
        if done:
            reason = FinishReason.STOP if request.whole else FinishReason.LENGTH
        times = tokens // len(self._answer) + 1
        ids = (self._answer * times)[:tokens]
        if reason is FinishReason.STOP:
            ids = (*ids[:-1], self._stop)
        self.written += tokens
        self._cached[request.session] = request.prompt + tokens
        if not request.answer.done():
            request.answer.set_result(
                Generation(ids, (-0.5,) * tokens, reason, weight_version=self.weight_version)
            )
