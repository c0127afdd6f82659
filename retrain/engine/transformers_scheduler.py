"""Continuous admission: who runs, on which slot, and what the next forwards compute.

Knows nothing of threads or event loops: `step` is called over and over by one thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrain.engine.base import Generation
from retrain.engine.transformers_forward import Forward
from retrain.engine.transformers_prefill import Prefill
from retrain.engine.transformers_requests import Request, Run, Work
from retrain.engine.transformers_sampling import sample, uniform
from retrain.engine.transformers_slots import SlotTable
from retrain.errors import EngineFailure
from retrain.types import FinishReason


class Scheduler:
    """Steps all running requests together; new ones join between two steps."""

    def __init__(
        self,
        forward: Forward,
        *,
        max_slots: int,
        prefill_chunk: int,
        eviction_grace: float,
        weight_version: str,
    ) -> None:
        """Begin with nothing to do.

        Args:
            forward: Computes the logits.
            max_slots: Most requests that run together.
            prefill_chunk: Most prompt tokens, padding included, that are computed between two
                decoding steps.
            eviction_grace: Seconds for which an idle slot is not taken from its session.
            weight_version: The weights to begin with.
        """
        self._forward = forward
        self._table = SlotTable(max_slots, eviction_grace)
        self._prefill = Prefill(forward, self._table, prefill_chunk)
        self._weight_version = weight_version
        self._waiting: list[Request] = []
        self._running: list[Run] = []
        self._finished: list[Request] = []
        self._held = False

    def delay(self) -> float | None:
        """Seconds until `step` has something to do; None while there is nothing to wait for."""
        if self._held:
            return None
        if self._running:
            return 0.0
        delays = [self._table.delay(request.session_id) or 0.0 for request in self._waiting]
        return min(delays, default=None)

    def hold(self, held: bool) -> None:
        """Compute nothing while held; requests can still be submitted and aborted."""
        self._held = held

    def submit(self, request: Request) -> None:
        """Queue a request, or refuse it where its session already has one."""
        if self._find(request.session_id) is not None:
            reason = f"session {request.session_id!r} already has a running request"
            self._finish(request, EngineFailure(reason))
            return
        request.weight_version = self._weight_version
        self._waiting.append(request)

    def step(self) -> None:
        """Admit what can be admitted, prefill one chunk, decode one token of every run."""
        self._admit()
        self._advance(self._prefill.next_work(self._running))
        decoding = [run for run in self._running if run.pending == 1]
        decoding.sort(key=lambda run: run.slot.index)
        self._advance([(run, run.next_tokens(1)) for run in decoding])

    def finished(self) -> list[Request]:
        """Take the requests that have a result since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def abort(self, session_id: str) -> None:
        """End the session's request with what it has written."""
        request = self._find(session_id)
        if request is not None:
            self._end(request, FinishReason.ABORT)

    def release(self, session_id: str) -> None:
        """Abort and forget the session; the last one to go takes the buffers with it."""
        self.abort(session_id)
        self._free(session_id)
        if self._table.empty:
            self._forward.free()

    def weights_changed(self, version: str) -> None:
        """Drop everything that the old weights computed; runs compute their streams again."""
        self._weight_version = version
        self._forget()

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """Give every waiting and running request the same failure, and drop all slots."""
        for request in [*self._waiting, *(run.request for run in self._running)]:
            failure = EngineFailure(reason)
            failure.__cause__ = cause
            self._finish(request, failure)
        for run in self._running:
            self._table.give_back(run.slot)
        self._waiting, self._running = [], []
        self._forget()

    def _forget(self) -> None:
        self._table.forget()
        self._forward.free()

    def _find(self, session_id: str) -> Request | None:
        requests = [*self._waiting, *(run.request for run in self._running)]
        return next((r for r in requests if r.session_id == session_id), None)

    def _admit(self) -> None:
        """Sessions that hold a slot come first: taking it from them would only move the wait."""
        if not self._waiting:
            return
        self._waiting.sort(key=lambda request: not self._table.holds(request.session_id))
        left = []
        for request in self._waiting:
            slot = self._table.take(request.session_id)
            if slot is None:
                left.append(request)
                continue
            request.cached_tokens = slot.keep_prefix(request.prompt)
            run = Run(request, slot, list(request.prompt))
            if not slot.tokens and self._forward.keeps_turns:
                self._prefill.follow(run, self._running)
            self._running.append(run)
        self._waiting = left

    def _advance(self, work: Sequence[Work]) -> None:
        if not work:
            return
        logits_BV = self._forward([span for _, span in work])
        for run, span in work:
            run.slot.tokens.extend(span.ids)
        ready = [(row, run) for row, (run, _) in enumerate(work) if not run.pending]
        if not ready:
            return
        if len(ready) < len(work):
            logits_BV = logits_BV[[row for row, _ in ready]]
        requests = [run.request for _, run in ready]
        draws = [uniform(r.seed, len(r.output_ids)) for r in requests]
        ids, logprobs = sample(logits_BV, [r.params for r in requests], draws)
        for (_, run), token, logprob in zip(ready, ids, logprobs, strict=True):
            self._append(run, token, logprob)

    def _append(self, run: Run, token: int, logprob: float) -> None:
        request = run.request
        run.stream.append(token)
        request.output_ids.append(token)
        request.logprobs.append(logprob)
        strings = request.params.stop_strings
        stopped = strings is not None and strings.completed_by(request.output_ids)
        if stopped or token in request.params.stop_token_ids:
            self._end(request, FinishReason.STOP)
        elif len(request.output_ids) >= request.params.max_tokens:
            self._end(request, FinishReason.LENGTH)

    def _end(self, request: Request, reason: FinishReason) -> None:
        for run in self._running:
            if run.request is request:
                self._leave(run)
        self._waiting = [other for other in self._waiting if other is not request]
        meta = {"cached_tokens": request.cached_tokens, "prompt_tokens": len(request.prompt)}
        generation = Generation(
            tuple(request.output_ids),
            tuple(request.logprobs),
            reason,
            weight_version=request.weight_version,
            meta=meta,
        )
        self._finish(request, generation)

    def _leave(self, run: Run) -> None:
        self._running = [other for other in self._running if other is not run]
        self._table.give_back(run.slot)
        if not self._forward.keeps_turns:
            self._free(run.request.session_id)

    def _free(self, session_id: str) -> None:
        moved = self._table.release(session_id)
        if moved is not None and moved.length:
            self._forward.copy(moved)

    def _finish(self, request: Request, result: Generation | EngineFailure) -> None:
        request.result = result
        self._finished.append(request)
