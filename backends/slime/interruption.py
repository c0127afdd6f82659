"""`InterruptibleEngine`: an episode's turns stop where slime aborts, and can go on from there.

slime's manager aborts what is still running when a rollout is full (slime/rollout/
sglang_rollout.py, `abort`): it raises a flag, tells every server to abort, and waits for the
calls of `generate` that are under way.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from backends.slime.stream_record import StreamRecord
from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.pausing import away
from retrain.rollout.gate import joined, part_seed
from retrain.types import FinishReason

_MANAGER = "slime.rollout.sglang_rollout"
_SINGLETONS = "slime.utils.misc"
"""Which the manager's module imports, and whose metaclass keeps the manager's one state."""
_STOPPED = Generation((), (), FinishReason.ABORT)


def slime_aborts() -> bool:
    """Whether slime's manager is aborting the rollout now.

    False where it does not run in this process: its state is looked at, never made.
    """
    manager = sys.modules.get(_MANAGER)
    if manager is None:
        return False
    made = sys.modules[_SINGLETONS].SingletonMeta._instances.get(manager.GenerateState)
    return made is not None and bool(made.aborted)


class InterruptibleEngine:
    """An `InferenceEngine` for one episode.

    Attributes:
        record: What it was asked and wrote so far.
        suspended: Set while a turn waits for `go_on`.
    """

    def __init__(
        self,
        engine: InferenceEngine,
        *,
        goes_on: bool,
        aborting: Callable[[], bool] = slime_aborts,
    ) -> None:
        """Stand before `engine`.

        Args:
            engine: Writes the turns.
            goes_on: Whether an aborted turn waits until it may go on from its tokens; False ends
                it, and so the episode.
            aborting: Whether requests are being aborted, so that none must be sent.
        """
        self._engine = engine
        self._goes_on = goes_on
        self._aborting = aborting
        self._opened = asyncio.Event()
        self.record = StreamRecord()
        self.suspended = asyncio.Event()

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine behind can do."""
        return self._engine.capabilities

    def go_on(self) -> None:
        """Let the suspended turn go on."""
        self.suspended.clear()
        self._opened.set()

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`, over as many interruptions as there are."""
        if self._goes_on:
            self.record.asked(session_id, input_ids)
        parts: list[Generation] = []
        stream = input_ids
        while True:
            written = len(stream) - len(input_ids)
            part = _STOPPED
            if not self._aborting():
                part = await self._engine.generate(
                    stream,
                    replace(params, max_tokens=params.max_tokens - written),
                    session_id=session_id,
                    seed=part_seed(seed, written),
                    images=images,
                )
            if not self._goes_on:
                return part
            parts.append(part)
            turn = _whole(parts, params.max_tokens)
            self.record.wrote(turn, seed)
            if turn.finish_reason is not FinishReason.ABORT:
                return turn
            stream = [*input_ids, *turn.output_ids]
            await self._suspend()
            self.record.take_back()

    async def _suspend(self) -> None:
        self._opened.clear()
        self.suspended.set()
        async with away():
            await self._opened.wait()

    async def abort(self, session_id: str) -> None:
        """End the session's running request."""
        await self._engine.abort(session_id)

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        await self._engine.release(session_id)


def _whole(parts: Sequence[Generation], most: int) -> Generation:
    """The turn that `parts` make; it has its length where the last one was aborted at its end."""
    turn = replace(joined(parts), finish_reason=parts[-1].finish_reason)
    if turn.finish_reason is FinishReason.ABORT and len(turn.output_ids) >= most:
        return replace(turn, finish_reason=FinishReason.LENGTH)
    return turn
