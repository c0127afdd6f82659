"""The one thread that steps a vLLM engine: requests join and leave between two steps.

vLLM's `LLM.generate` takes a whole batch and returns when its last row has ended, so a conversation
that goes on would wait for the longest turn of all others. Its engine batches continuously: this
loop adds each turn when it comes and answers it when it ends.

Read and run with vLLM 0.31.0 (`vllm/v1/engine/llm_engine.py`): `add_request(request_id, prompt,
params)`, `abort_request([request_id])`, `has_unfinished_requests()` and `step()`, which gives
`RequestOutput`s.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from retrain.engine.base import Generation
from retrain.engine.http_answer import finish_reason
from retrain.errors import EngineFailure
from retrain.types import FinishReason

HERE = "vLLM in this process"
"""Stands in messages where an engine over HTTP names a URL."""


@dataclass(slots=True, eq=False)
class LocalTurn:
    """One turn on its way through the engine.

    Attributes:
        request_id: Its name there.
        prompt: The whole stream so far.
        params: vLLM's `SamplingParams`, whose outputs are deltas.
        version: The weight version to put on it.
        ids: What it has written so far.
        logprobs: Their logprobs.
        cached: Prompt tokens that did not have to be computed.
    """

    request_id: str
    prompt: list[int]
    params: Any
    version: str
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cached: int = 0

    def take(self, output: Any) -> FinishReason | None:
        """Add what a step wrote; the finish reason where it was the last one.

        Raises:
            EngineFailure: A token has no logprob, or the turn ended for an unknown reason.
        """
        (part,) = output.outputs
        self.cached = output.num_cached_tokens or self.cached
        for token, known in zip(part.token_ids, part.logprobs or (), strict=True):
            self.ids.append(int(token))
            self.logprobs.append(float(known[token].logprob))
        return finish_reason(part.finish_reason, HERE) if output.finished else None

    def generation(self, reason: FinishReason) -> Generation:
        """What was written."""
        meta = {"cached_tokens": self.cached, "prompt_tokens": len(self.prompt)}
        return Generation(
            tuple(self.ids), tuple(self.logprobs), reason, weight_version=self.version, meta=meta
        )


@dataclass(frozen=True, slots=True)
class _Caller:
    turn: LocalTurn
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Generation]

    def answer(self, result: Generation | EngineFailure) -> None:
        with suppress(RuntimeError):  # the caller's loop has been closed: nobody waits any more
            self.loop.call_soon_threadsafe(_settle, self.future, result)


class StepLoop:
    """Owns a vLLM engine while it generates: commands come through a queue, results by futures."""

    def __init__(self, engine: Any, enter: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            engine: An `LLMEngine`; between two turns others may load weights into it.
            enter: Called in the thread first: a thread has its own current CUDA device.
        """
        self._engine = engine
        self._enter = enter
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._callers: dict[str, _Caller] = {}
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="retrain-vllm", daemon=True)
        self._thread.start()

    async def run(self, turn: LocalTurn) -> Generation:
        """Have a turn written.

        Raises:
            EngineFailure: It could not be.
        """
        loop = asyncio.get_running_loop()
        caller = _Caller(turn, loop, loop.create_future())
        self._post(lambda: self._submit(caller))
        try:
            return await caller.future
        except asyncio.CancelledError:
            self.abort(turn.request_id)
            raise

    def abort(self, request_id: str) -> None:
        """End a turn with what it has written; nothing happens where it has ended."""
        with suppress(EngineFailure):
            self._post(lambda: self._abort(request_id))

    def close(self) -> None:
        """Stop the thread after the step it is in; whoever waits gets an `EngineFailure`."""
        with self._closing:
            self._closed = True
            self._commands.put(_nothing)
        self._thread.join()

    def _post(self, command: Callable[[], None]) -> None:
        with self._closing:
            if self._closed:
                raise EngineFailure("the engine is closed")
            self._commands.put(command)

    def _submit(self, caller: _Caller) -> None:
        turn = caller.turn
        prompt = {"prompt_token_ids": turn.prompt}
        try:
            self._call("add_request", turn.request_id, prompt, turn.params)
        except EngineFailure as failure:
            caller.answer(failure)
        else:
            self._callers[turn.request_id] = caller

    def _abort(self, request_id: str) -> None:
        caller = self._callers.pop(request_id, None)
        if caller is not None:
            self._call("abort_request", [request_id])
            caller.answer(caller.turn.generation(FinishReason.ABORT))

    def _work(self) -> None:
        try:
            self._enter()
            while not self._closed:
                self._turn()
        finally:
            self._stop()

    def _turn(self) -> None:
        try:
            self._take_commands()
            if self._callers:
                for output in self._call("step"):
                    self._take(output)
        except EngineFailure as failure:
            self._fail(failure)

    def _take_commands(self) -> None:
        """Run what is queued; wait for a command only while there is nothing else to do."""
        with suppress(queue.Empty):
            self._commands.get(block=not self._callers)()
            while True:
                self._commands.get_nowait()()

    def _take(self, output: Any) -> None:
        caller = self._callers.get(output.request_id)
        if caller is None:
            return
        try:
            reason = caller.turn.take(output)
        except (EngineFailure, KeyError, ValueError) as error:
            fault = f"{HERE}: a token without its logprob ({type(error).__name__}: {error})"
            caller.answer(EngineFailure(fault))  # the first answer counts
            self._abort(output.request_id)
            return
        if reason is not None:
            del self._callers[output.request_id]
            caller.answer(caller.turn.generation(reason))

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._engine, name)(*arguments)
        except Exception as error:
            raise EngineFailure(f"{HERE}: {type(error).__name__}: {error}") from error

    def _fail(self, failure: EngineFailure) -> None:
        """Answer everybody: after a failed step the engine's state is not known."""
        callers, self._callers = list(self._callers.values()), {}
        for caller in callers:
            caller.answer(failure)

    def _stop(self) -> None:
        """Leave nobody waiting, whatever ended the thread."""
        with self._closing:
            self._closed = True
        while not self._commands.empty():
            self._commands.get()()
        with suppress(EngineFailure):
            self._call("abort_request", list(self._callers))
        self._fail(EngineFailure("the engine is closed"))


def _nothing() -> None:
    """Wakes the thread."""


def _settle(future: asyncio.Future[Generation], result: Generation | EngineFailure) -> None:
    if future.done():
        return
    if isinstance(result, Generation):
        future.set_result(result)
    else:
        future.set_exception(result)
